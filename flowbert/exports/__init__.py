"""Export of models for other programs."""

from flowbert.exports.export import EXPORT_FORMATS, Format, export

# These imports register the formats.
from flowbert.exports.onnx import ONNX
from flowbert.exports.sentence_transformers import SentenceTransformers

__all__ = [
    "EXPORT_FORMATS",
    "ONNX",
    "Format",
    "SentenceTransformers",
    "export",
]

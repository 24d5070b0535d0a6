"""Export of models for other programs."""

from flowbert.extras.export.formats import EXPORT_FORMATS, Format, export

# These imports register the formats.
from flowbert.extras.export.onnx import ONNX
from flowbert.extras.export.sentence_transformers import SentenceTransformers

__all__ = [
    "EXPORT_FORMATS",
    "ONNX",
    "Format",
    "SentenceTransformers",
    "export",
]

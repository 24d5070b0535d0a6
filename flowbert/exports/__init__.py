"""Export of models for other programs, and import of maps from other programs."""

from flowbert.exports.bert_whitening import import_whitening
from flowbert.exports.export import export
from flowbert.exports.format import EXPORT_FORMATS, Format

# These imports register the formats.
from flowbert.exports.onnx import ONNX, ONNXInt8
from flowbert.exports.sentence_transformers import SentenceTransformers
from flowbert.exports.served import served_by

__all__ = [
    "EXPORT_FORMATS",
    "ONNX",
    "Format",
    "ONNXInt8",
    "SentenceTransformers",
    "export",
    "import_whitening",
    "served_by",
]

"""Models for other programs, and maps that other programs have fitted."""

from flowbert.exports.bert_whitening import import_whitening
from flowbert.exports.export import export
from flowbert.exports.format import EXPORT_FORMATS, Format

# Formats register where they stand.
from flowbert.exports.onnx import ONNX
from flowbert.exports.onnx_int8 import ONNXInt8
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

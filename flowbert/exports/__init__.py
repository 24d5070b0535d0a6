"""Models for other programs: sentence-transformers folders, ONNX, the hub; maps of others."""

from flowbert.exports.export import FORMATS, export
from flowbert.exports.imports import import_whitening

__all__ = ["FORMATS", "export", "import_whitening"]

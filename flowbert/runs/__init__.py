"""Whole runs in one call each: what the command line does, without it."""

from flowbert.runs.advise import advise
from flowbert.runs.analyze import analyze
from flowbert.runs.compare import compare
from flowbert.runs.encode import encode
from flowbert.runs.encode_vectors import encode_vectors
from flowbert.runs.export import export
from flowbert.runs.fit import Run, fit
from flowbert.runs.import_model import import_model
from flowbert.runs.report import write_report

__all__ = [
    "Run",
    "advise",
    "analyze",
    "compare",
    "encode",
    "encode_vectors",
    "export",
    "fit",
    "import_model",
    "write_report",
]

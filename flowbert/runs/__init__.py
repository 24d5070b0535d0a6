"""Whole runs in one call each: what the command line does, without it."""

from flowbert.runs.advise import advise
from flowbert.runs.compare import compare
from flowbert.runs.encode import encode
from flowbert.runs.export import export
from flowbert.runs.fit import Run, fit

__all__ = ["Run", "advise", "compare", "encode", "export", "fit"]

"""The grid of encoders, layers, methods, corpora and tasks, and its results in files."""

from flowbert.evaluation.grid import Cell, Request, Source, reference_rows, run
from flowbert.evaluation.results import Row, fingerprint, load_results, merge_results, rows_of, write_results

__all__ = [
    "Cell",
    "Request",
    "Row",
    "Source",
    "fingerprint",
    "load_results",
    "merge_results",
    "reference_rows",
    "rows_of",
    "run",
    "write_results",
]

"""Methods compared on the same embeddings and tasks."""

from flowbert.evaluation.compare import compare
from flowbert.evaluation.results import Results

__all__ = ["Results", "compare"]

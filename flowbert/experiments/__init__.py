"""Experiments: fitting and measuring maps, and comparing the results."""

from flowbert.experiments.compare import compare
from flowbert.experiments.results import Results

__all__ = ["Results", "compare"]

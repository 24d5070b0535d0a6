"""Experiments: a map is fitted and measured; the results of many are compared."""

from flowbert.experiments.compare import compare
from flowbert.experiments.results import Results

__all__ = ["Results", "compare"]

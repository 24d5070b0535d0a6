"""Metrics of sentence embeddings: torchmetrics classes over the pure functions in ``flowbert.metrics.functional``."""

from flowbert.metrics.alignment import Alignment
from flowbert.metrics.spearman import Spearman
from flowbert.metrics.uniformity import Uniformity

__all__ = ["Alignment", "Spearman", "Uniformity"]

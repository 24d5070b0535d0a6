"""Measures of sentence embeddings, as pure functions: one file each."""

from flowbert.metrics.alignment import alignment
from flowbert.metrics.isotropy import mean_cosine
from flowbert.metrics.spearman import no_spearman, spearman, spearman_or_nan
from flowbert.metrics.uniformity import uniformity

__all__ = ["alignment", "mean_cosine", "no_spearman", "spearman", "spearman_or_nan", "uniformity"]

"""The metrics as pure functions."""

from flowbert.metrics.functional.alignment import alignment
from flowbert.metrics.functional.isotropy import mean_cosine
from flowbert.metrics.functional.spearman import spearman
from flowbert.metrics.functional.uniformity import SampledUniformity, sampled_uniformity, uniformity

__all__ = ["SampledUniformity", "alignment", "mean_cosine", "sampled_uniformity", "spearman", "uniformity"]

"""The metrics as pure functions."""

from flowbert.metrics.functional.alignment import alignment
from flowbert.metrics.functional.isotropy import mean_cosine
from flowbert.metrics.functional.spearman import no_spearman, spearman, spearman_or_nan
from flowbert.metrics.functional.uniformity import SampledUniformity, sampled_uniformity, uniformity

__all__ = [
    "SampledUniformity",
    "alignment",
    "mean_cosine",
    "no_spearman",
    "sampled_uniformity",
    "spearman",
    "spearman_or_nan",
    "uniformity",
]

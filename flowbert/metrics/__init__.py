"""Measures of sentence embeddings, as pure functions: one file each."""

from flowbert.metrics.alignment import alignment as alignment
from flowbert.metrics.hubness import hubness as hubness
from flowbert.metrics.isotropy import mean_cosine as mean_cosine
from flowbert.metrics.spearman import no_spearman as no_spearman
from flowbert.metrics.spearman import spearman as spearman
from flowbert.metrics.spearman import spearman_or_nan as spearman_or_nan
from flowbert.metrics.uniformity import uniformity as uniformity

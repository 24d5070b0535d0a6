"""Norms of sentence vectors against the length of sentences and the frequency of their words."""

from typing import ClassVar

import pandas as pd

from flowbert.analysis.measure import MEASURES, Measure, by_method
from flowbert.analysis.sample import Sample
from flowbert.tasks.measures import Array, spearman, to_rows


def norm_correlations(x: Array, lengths: pd.DataFrame) -> dict[str, float]:
    """Mean norm of vectors, and Spearman of the norm with length and word frequency.

    References:
        On the Sentence Embeddings from Pre-trained Language Models (Li et al., 2020), section 3.2:
        frequent words are nearer to the origin. https://arxiv.org/abs/2011.05864
        The rank correlation over sentences is ours.

    Args:
        x: Vectors of N sentences, ``(N, D)``.
        lengths: Columns length and frequency, N rows.

    Returns:
        ``mean_norm``, ``length_correlation``, ``frequency_correlation``; a correlation that does
        not exist is NaN.
    """
    norms = to_rows(x).norm(dim=1).cpu().numpy()
    return {
        "mean_norm": float(norms.mean()),
        "length_correlation": spearman(norms, lengths["length"].to_numpy()),
        "frequency_correlation": spearman(norms, lengths["frequency"].to_numpy()),
    }


@MEASURES.register("norms")
class Norms(Measure):
    """A row per method, see :func:`norm_correlations`."""

    columns: ClassVar = {
        "method": str,
        "mean_norm": float,
        "length_correlation": float,
        "frequency_correlation": float,
    }

    def frame(self, sample: Sample) -> pd.DataFrame:
        """The correlations of every method."""
        return by_method(
            sample.vectors, lambda x: [norm_correlations(x, sample.lengths)]
        )

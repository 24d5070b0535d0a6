"""Cosines of sentence pairs by bands of their gold score: what a rank correlation is made of."""

import math
from itertools import pairwise

import numpy as np
import pandas as pd

from flowbert.arrays import Floats

BANDS = 5
BINS = 50


def gold_bounds(gold: Floats) -> Floats:
    """Bounds of bands of equal width that hold all gold scores: ``(BANDS + 1,)``.

    The range is that of the scores, extended to multiples of the largest power of ten within it.
    Equal scores form one band.

    Args:
        gold: Gold scores, ``(P,)``.

    Example:
        >>> gold_bounds(np.array([0.2, 2.5, 4.8]))
        array([0., 1., 2., 3., 4., 5.])
    """
    low, high = float(np.min(gold)), float(np.max(gold))
    if low == high:
        return np.array([low, high])
    step = 10.0 ** math.floor(math.log10(high - low))
    # Rounding must not leave a score outside.
    first = min(low, math.floor(low / step) * step)
    last = max(high, math.ceil(high / step) * step)
    return np.linspace(first, last, BANDS + 1)


def gold_bands(gold: Floats, cosines: Floats) -> dict[str, pd.DataFrame]:
    """Quartiles and histograms of cosines by band of the gold score.

    A score on a bound belongs to the band above, the highest one to the last band. Pairs without
    a cosine (NaN) are left out.

    Args:
        gold: Gold scores, ``(P,)``.
        cosines: Cosine of each pair, ``(P,)``.

    Returns:
        The frames ``bands`` and ``band_cosines`` of :class:`~flowbert.analysis.Analysis`, without
        task and method.

    Example:
        >>> gold, cosines = np.array([0.0, 2.0, 5.0]), np.array([-0.5, 0.5, 0.7])
        >>> gold_bands(gold, cosines)["bands"]["median"].tolist()
        [-0.5, nan, 0.5, nan, 0.7]
    """
    bounds = gold_bounds(gold)
    band_of_pair = np.digitize(gold, bounds[1:-1])
    records, histograms = [], []
    for band, (low, high) in enumerate(pairwise(bounds)):
        chosen = cosines[(band_of_pair == band) & ~np.isnan(cosines)]
        bounds_of_band = {"gold_from": low, "gold_to": high}
        lower, median, upper = pd.Series(chosen).quantile([0.25, 0.5, 0.75])
        record = {
            **bounds_of_band,
            "pairs": len(chosen),
            "lower_quartile": lower,
            "median": median,
            "upper_quartile": upper,
        }
        counts, edges = np.histogram(chosen, BINS, (-1, 1))
        histogram = {
            **bounds_of_band,
            "cosine_from": edges[:-1],
            "cosine_to": edges[1:],
            "pairs": counts,
        }
        records.append(record)
        histograms.append(pd.DataFrame(histogram))
    return {"bands": pd.DataFrame(records), "band_cosines": pd.concat(histograms)}

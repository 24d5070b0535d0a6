"""Cosines of sentence pairs by bands of their gold score, with histograms."""

import math
from itertools import pairwise

import numpy as np
import pandas as pd

from flowbert.arrays import Floats
from flowbert.extras.analysis.measure import MEASURES, Measure, Sample, stack

BANDS = 5
COSINE_BINS = 50


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


def gold_bands(gold: Floats, cosines: Floats) -> pd.DataFrame:
    """Histograms of cosines by band of the gold score.

    A score on a bound belongs to the band above, the highest one to the last band. Pairs without
    a cosine (NaN) are left out.

    Args:
        gold: Gold scores, ``(P,)``.
        cosines: Cosine of each pair, ``(P,)``.

    Returns:
        The frame of :class:`BandCosines` without task and method.

    Example:
        >>> gold, cosines = np.array([0.0, 2.0, 5.0]), np.array([-0.5, 0.5, 0.7])
        >>> gold_bands(gold, cosines).groupby("gold_from")["median"].first().tolist()
        [-0.5, nan, 0.5, nan, 0.7]
    """
    bounds = gold_bounds(gold)
    band_of_pair = np.digitize(gold, bounds[1:-1])
    histograms = []
    for band, (low, high) in enumerate(pairwise(bounds)):
        chosen = cosines[(band_of_pair == band) & ~np.isnan(cosines)]
        ends = {"gold_from": low, "gold_to": high, "median": pd.Series(chosen).median()}
        counts, edges = np.histogram(chosen, COSINE_BINS, (-1, 1))
        bins = {"cosine_from": edges[:-1], "cosine_to": edges[1:], "pairs": counts}
        histograms.append(pd.DataFrame(ends | bins))
    return pd.concat(histograms)


def prepare_cosines(frame: pd.DataFrame) -> pd.DataFrame:
    """Add the share of a bin in its band's pairs; cut ends that are empty everywhere."""
    of_band = frame.groupby(["task", "method", "gold_from"])["pairs"].transform("sum")
    frame = frame.assign(share=(frame["pairs"] / of_band).fillna(0))
    used = frame[frame["pairs"] > 0]
    first, last = used["cosine_from"].min(), used["cosine_to"].max()
    return frame[frame["cosine_from"].ge(first) & frame["cosine_to"].le(last)]


@MEASURES.register("band_cosines")
class BandCosines(Measure):
    """A row per task, method, band of the gold score and bin of a histogram of cosines.

    median is that of the band's cosines, pairs the number in the bin.
    """

    def frame(self, sample: Sample) -> pd.DataFrame:
        """The histograms of every task under every method with a cosine of each pair."""
        parts = {
            (task, method): gold_bands(gold, values)
            for task, (gold, cosines) in sample.pairs.items()
            for method, values in cosines.items()
            if np.isfinite(values).all()
        }
        return stack(parts, ["task", "method"])

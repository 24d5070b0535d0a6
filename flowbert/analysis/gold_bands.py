"""Cosines of sentence pairs by bands of their gold score: what a rank correlation is made of."""

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np
from torch import Tensor

from flowbert.metrics.arrays import Array, to_vector
from flowbert.tasks.protocol import Floats, cosine

BANDS = 5
BINS = 50


class GoldBand(NamedTuple):
    """Cosines of the pairs whose gold score is in [low, high); in the last band high itself belongs to it.

    Attributes:
        low: Lowest gold score.
        high: Where the next band begins.
        pairs: Number of pairs.
        counts: Pairs by cosine, in bins of equal width over [-1, 1].
        lower: Lower quartile of the cosines; None without pairs, as all three.
        median: Their median.
        upper: Their upper quartile.
    """

    low: float
    high: float
    pairs: int
    counts: list[int]
    lower: float | None
    median: float | None
    upper: float | None


class ScoredPairs(NamedTuple):
    """Pairs of a task, P of them, under several methods.

    Attributes:
        gold: Gold scores ``(P,)``, torch or numpy.
        cosines: Method -> cosine of each pair, ``(P,)``.
    """

    gold: Array
    cosines: Mapping[str, Array]

    @classmethod
    def of(cls, gold: Array, vectors: Mapping[str, Tensor], first: Tensor, second: Tensor) -> Self:
        """From vectors that are there: method -> ``(N, D)``, and the row of each pair's sentences, ``(P,)`` int64."""
        return cls(gold, {name: cosine(rows[first], rows[second]) for name, rows in vectors.items()})

    @property
    def gold_range(self) -> tuple[float, float]:
        """Lowest and highest gold score that occur, outwards to the last power of ten below their distance."""
        scores = to_vector(self.gold, "gold")
        low, high = float(scores.min()), float(scores.max())
        if low == high:
            return low, high
        step = 10.0 ** math.floor(math.log10(high - low))
        return min(low, math.floor(low / step) * step), max(high, math.ceil(high / step) * step)


def gold_bands(
    cosines: Array, gold: Array, gold_range: tuple[float, float] = (0.0, 5.0), bands: int = BANDS, bins: int = BINS
) -> list[GoldBand]:
    """Part pairs into bands of equal width of their gold score. A pair without a cosine (NaN) is left out.

    Args:
        cosines: Cosine of each pair, ``(P,)``, torch or numpy.
        gold: Gold scores, ``(P,)``.
        gold_range: Lowest and highest gold score there can be; if they are equal, there is one band.
        bands: Number of bands.
        bins: Number of bins of [-1, 1].

    Raises:
        ValueError: If the shapes differ, or a gold score or cosine is out of its range.

    Example:
        >>> low, high = gold_bands(np.array([-0.5, 0.5, 0.7]), np.array([0.0, 2.5, 5.0]), bands=2, bins=4)
        >>> (low.pairs, low.counts, low.median), (high.pairs, high.counts, high.median)
        ((1, [0, 1, 0, 0], -0.5), (2, [0, 0, 0, 2], 0.6))
    """
    x, y = to_vector(cosines, "cosines"), to_vector(gold, "gold")
    low, high = gold_range
    if len(x) != len(y):
        raise ValueError(f"cosines have {len(x)} values and gold has {len(y)}; allowed: equal lengths")
    if not bool(((y >= low) & (y <= high)).all()):
        raise ValueError(f"gold: received {y.min()} to {y.max()}; allowed: {low} to {high}")
    x, y = x[~np.isnan(x)], y[~np.isnan(x)]
    if bool((np.abs(x) > 1).any()):
        raise ValueError(f"cosines: received {x.min()} to {x.max()}; allowed: -1 to 1")
    bounds = np.linspace(low, high, bands + 1 if low < high else 2)
    band = np.digitize(y, bounds[1:-1])
    return [_band(x[band == i], *limits, bins) for i, limits in enumerate(pairwise(bounds.tolist()))]


def bands_of(tasks: Mapping[str, ScoredPairs]) -> dict[str, dict[str, list[GoldBand]]]:
    """Task -> method -> bands, over the gold scores that occur."""
    return {
        task: {name: gold_bands(cosines, pairs.gold, pairs.gold_range) for name, cosines in pairs.cosines.items()}
        for task, pairs in tasks.items()
    }


def _band(cosines: Floats, low: float, high: float, bins: int) -> GoldBand:
    counts = np.histogram(cosines, bins, (-1.0, 1.0))[0].tolist()
    quartiles = np.quantile(cosines, (0.25, 0.5, 0.75)).tolist() if len(cosines) else (None, None, None)
    return GoldBand(low, high, len(cosines), counts, *quartiles)

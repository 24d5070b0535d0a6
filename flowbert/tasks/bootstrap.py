"""Bootstrap resamples as multiplicities, and Spearman on them without sorting again."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flowbert.arrays import Floats
from flowbert.seeding import Stream

Counts = NDArray[np.int32]
"""How often each unit is drawn in each resample, ``(R, units)``."""


def draw_counts(strata: Sequence[int], resamples: int, stream: Stream) -> Counts:
    """Draw with replacement from each stratum: multiplicities ``(R, units)``.

    Args:
        strata: Sizes of the groups of units that are resampled separately.
        resamples: Number of resamples R.
        stream: Their random numbers.
    """
    rng = stream.rng()
    drawn = []
    for size in strata:
        units = rng.integers(0, size, (resamples, size))
        units += np.arange(resamples)[:, None] * size
        counts = np.bincount(units.ravel(), minlength=resamples * size)
        drawn.append(counts.astype(np.int32).reshape(resamples, size))
    return np.concatenate(drawn, axis=1)


class ResampledSpearman:
    r"""Spearman of several methods with one target, on any resample of the pairs.

    The mid-rank of a value in a resample follows from how often smaller and equal values are
    drawn: each variable is sorted once, and a resample takes a cumulative sum.

    Args:
        methods: Similarities of M methods, each ``(N,)``, finite.
        target: Gold scores ``(N,)``.
    """

    def __init__(self, methods: Sequence[Floats], target: Floats) -> None:
        self._target = _Sorted(target)
        self._methods = [_Sorted(values) for values in methods]

    def __call__(self, counts: Counts) -> Floats:
        """Correlations ``(M, R)`` for multiplicities ``(R, N)``; NaN where one is undefined."""
        cubes = _sum_of_cubes(counts)
        target, target_norms = self._target.ranks(counts, cubes)
        weighted: Floats = counts.astype(np.float64) * target
        correlations = []
        for method in self._methods:
            ranks, norms = method.ranks(counts, cubes)
            # Squared norms of doubled ranks are whole numbers: below 1/2 means a constant.
            defined = (norms > 0.5) & (target_norms > 0.5)
            norm = np.sqrt(np.where(defined, norms * target_norms, np.nan))
            product = np.vecdot(weighted, ranks.astype(np.float64))
            correlations.append(np.clip(product / norm, -1.0, 1.0))
        return np.stack(correlations)


class _Sorted:
    """One variable, sorted once."""

    def __init__(self, values: Floats) -> None:
        self._order = np.argsort(values, kind="stable")
        ordered = values[self._order]
        is_last = np.append(ordered[1:] != ordered[:-1], True)
        self._ends = np.flatnonzero(is_last)
        self._tied = len(self._ends) < len(values)
        self._group = np.empty(len(values), dtype=np.int64)
        self._group[self._order] = np.cumsum(is_last) - is_last

    def ranks(self, counts: Counts, cubes: Floats) -> tuple[Counts, Floats]:
        r"""Doubled centred mid-ranks ``(R, N)`` and their squared norms ``(R,)``.

        The sum of the squared doubled mid-ranks of n values in groups of sizes g is
        :math:`(n^3 - \sum g^3) / 3`.
        """
        sizes: Any = np.take(counts, self._order, axis=1)
        highest: Any = np.cumsum(sizes, axis=1, dtype=np.int32)
        total = highest[:, -1:].copy()
        if self._tied:
            highest = np.take(highest, self._ends, axis=1)
            sizes = np.diff(highest, axis=1, prepend=np.int32(0))
            cubes = _sum_of_cubes(sizes)
        doubled = 2 * highest
        doubled -= sizes
        doubled -= total
        norms: Floats = (total[:, 0].astype(np.float64) ** 3 - cubes) / 3
        return np.take(doubled, self._group, axis=1), norms


def _sum_of_cubes(counts: Counts) -> Floats:
    exact = counts.astype(np.float64)
    cubes: Floats = np.vecdot(exact * exact, exact)
    return cubes

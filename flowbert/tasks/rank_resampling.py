r"""Spearman on resamples: mid-ranks from multiplicities, nothing sorted again.

A resample is drawn as multiplicities :math:`c_i` of the pairs. With the values presorted once, the mid-ranks of a
resample follow from the cumulative sums of the multiplicities in sorted order. Ranks are held doubled and centred,
:math:`R = 2 r - (n + 1)`, which makes them whole numbers.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from flowbert.tasks.resampling import Counts, Floats

Places = NDArray[np.int64]


class ResampledSpearman:
    """Spearman of several methods with one target, on any resample of the pairs.

    Each figure equals ``scipy.stats.spearmanr`` on the resampled pairs.

    Args:
        methods: Values of each of M methods, shape ``(N,)``; one with values that are not finite has no figure.
        target: What they are compared with, shape ``(N,)``, finite.

    Example:
        >>> spearman = ResampledSpearman([np.array([0.1, 0.3, 0.2])], np.array([1.0, 2.0, 3.0]))
        >>> spearman(np.array([[1, 1, 1], [1, 2, 0], [3, 0, 0]], dtype=np.int32))
        array([[0.5, 1. , nan]])
    """

    def __init__(self, methods: Sequence[Floats], target: Floats) -> None:
        self._target = _ranked(target)
        self._methods = [_ranked(values) if np.isfinite(values).all() else None for values in methods]

    def __call__(self, counts: Counts) -> Floats:
        """Figures of shape ``(M, R)``, NaN where a variable is constant, given multiplicities ``(R, N)``."""
        counts = np.ascontiguousarray(counts)
        cubes = _sum_of_cubes(counts)
        target, norms = self._target.ranks(counts, cubes)
        weighted: Floats = counts.astype(np.float64) * target
        return np.array([_correlation(method, counts, cubes, weighted, norms) for method in self._methods])


class _FewValues:
    """One variable, sorted once: mid-ranks of any resample from its multiplicities.

    Most pairs have an equal one, as gold scores do: multiplicities are joined by value.

    Args:
        order: Pairs by value, shape ``(N,)``.
        ends: Place of the last pair of each distinct value in this order, shape ``(G,)``.
        sizes: How many pairs have it, shape ``(G,)``.
    """

    def __init__(self, order: Places, ends: Places, sizes: Places) -> None:
        self.order, self.ends = order, ends
        self.group = np.empty(len(order), dtype=np.int64)
        self.group[order] = np.repeat(np.arange(len(ends)), sizes)

    def ranks(self, counts: Counts, cubes: Floats) -> tuple[Counts, Floats]:
        """Ranks and their squared norms.

        Args:
            counts: Multiplicities of shape ``(R, N)``, each row summing to N.
            cubes: Sums of their cubes, shape ``(R,)``.

        Returns:
            Doubled centred mid-ranks of shape ``(R, N)``, and the sums of their squares of shape ``(R,)``.
        """
        upto = np.cumsum(np.take(counts, self.order, axis=1), axis=1, dtype=np.int32)
        upto = np.take(upto, self.ends, axis=1)
        sizes = np.diff(upto, axis=1, prepend=np.int32(0))
        ranks = 2 * upto - sizes - np.int32(counts.shape[1])
        return np.take(ranks, self.group, axis=1), _norms(counts, _sum_of_cubes(sizes))


class _FewTies:
    """The same where few pairs have an equal one, as cosines do.

    All are ranked as if they differed, then these are set right.
    """

    def __init__(self, order: Places, ends: Places, sizes: Places) -> None:
        self.order, self.place = order, np.argsort(order)
        tied = sizes > 1
        self.last, self.sizes = ends[tied], sizes[tied]
        self.first = self.last - self.sizes + 1
        self.tied = np.flatnonzero(np.repeat(tied, sizes))

    def ranks(self, counts: Counts, cubes: Floats) -> tuple[Counts, Floats]:
        sizes = np.take(counts, self.order, axis=1)
        upto = np.cumsum(sizes, axis=1, dtype=np.int32)
        ranks = 2 * upto
        ranks -= sizes
        if len(self.tied):
            before = np.take(upto, self.first, axis=1) - np.take(sizes, self.first, axis=1)
            after = np.take(upto, self.last, axis=1)
            ranks[:, self.tied] = np.repeat(before + after, self.sizes, axis=1)
            cubes = cubes - _sum_of_cubes(np.take(sizes, self.tied, axis=1)) + _sum_of_cubes(after - before)
        ranks -= np.int32(counts.shape[1])
        return np.take(ranks, self.place, axis=1), _norms(counts, cubes)


_Ranked = _FewValues | _FewTies


def _ranked(values: Floats) -> _Ranked:
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    ends = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True))
    sizes = np.diff(ends, prepend=-1)
    kind = _FewValues if 2 * len(ends) < len(values) else _FewTies
    return kind(order, ends, sizes)


def _sum_of_cubes(counts: Counts) -> Floats:
    exact = counts.astype(np.float64)
    cubes: Floats = np.vecdot(exact * exact, exact)
    return cubes


def _norms(counts: Counts, cubes: Floats) -> Floats:
    """Squared norms of doubled centred mid-ranks, given the sums of the cubes of how often each value is drawn."""
    return (float(counts.shape[1]) ** 3 - cubes) / 3


def _correlation(method: _Ranked | None, counts: Counts, cubes: Floats, target: Floats, target_norms: Floats) -> Floats:
    if method is None:
        return np.full(len(counts), np.nan)
    ranks, norms = method.ranks(counts, cubes)
    # Squared norms are whole numbers, at least n (n - 1) unless the variable is constant: below 1/2 means zero.
    exists = (norms > 0.5) & (target_norms > 0.5)
    product = np.vecdot(target, ranks.astype(np.float64))
    norm = np.sqrt(norms, where=exists, out=np.full_like(norms, np.nan)) * np.sqrt(target_norms.clip(0.5))
    figures: Floats = np.clip(product / norm, -1.0, 1.0)
    return figures

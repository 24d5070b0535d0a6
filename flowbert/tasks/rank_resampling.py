r"""Spearman on resamples: mid-ranks from multiplicities, nothing sorted again.

A resample is drawn as multiplicities :math:`c_i` of the pairs. With the values presorted once, the mid-ranks of a
resample follow from the cumulative sums of the multiplicities in sorted order. Ranks are held doubled and centred,
:math:`R = 2 r - (n + 1)`, which makes them whole numbers.
"""

from collections.abc import Sequence

import numpy as np

from flowbert.tasks.resampling import Counts, Floats


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
        self._target = _Ranked(target)
        self._methods = [_Ranked(values) if np.isfinite(values).all() else None for values in methods]

    def __call__(self, counts: Counts) -> Floats:
        """Figures of shape ``(M, R)``, NaN where a variable is constant, given multiplicities ``(R, N)``."""
        counts = np.ascontiguousarray(counts)
        target, norms = self._target.ranks(counts)
        weighted: Floats = counts.astype(np.float64) * target
        return np.array([_correlation(method, counts, weighted, norms) for method in self._methods])


class _Ranked:
    """One variable, sorted once: mid-ranks of any resample from its multiplicities."""

    def __init__(self, values: Floats) -> None:
        self.order = np.argsort(values, kind="stable")
        ordered = values[self.order]
        last = np.append(ordered[1:] != ordered[:-1], True)
        self.tied = not last.all()
        self.ends = np.flatnonzero(last)
        self.group = np.empty(len(values), dtype=np.int64)
        self.group[self.order] = np.cumsum(last) - last

    def ranks(self, counts: Counts) -> tuple[Counts, Floats]:
        """Ranks and their squared norms.

        Args:
            counts: Multiplicities of shape ``(R, N)``, each row summing to N.

        Returns:
            Doubled centred mid-ranks of shape ``(R, N)``, and the sums of their squares of shape ``(R,)``.
        """
        total = counts.shape[1]
        sizes = np.take(counts, self.order, axis=1)
        upto = np.cumsum(sizes, axis=1, dtype=np.int32)
        if self.tied:
            upto = np.take(upto, self.ends, axis=1)
            sizes = np.diff(upto, axis=1, prepend=np.int32(0))
        upto *= 2
        upto -= sizes
        upto -= np.int32(total)
        exact = sizes.astype(np.float64)
        norms: Floats = (float(total) ** 3 - np.vecdot(exact * exact, exact)) / 3
        return np.take(upto, self.group, axis=1), norms


def _correlation(method: _Ranked | None, counts: Counts, target: Floats, target_norms: Floats) -> Floats:
    if method is None:
        return np.full(len(counts), np.nan)
    ranks, norms = method.ranks(counts)
    # Squared norms are whole numbers, at least n (n - 1) unless the variable is constant: below 1/2 means zero.
    exists = (norms > 0.5) & (target_norms > 0.5)
    product = np.vecdot(target, ranks.astype(np.float64))
    norm = np.sqrt(norms, where=exists, out=np.full_like(norms, np.nan)) * np.sqrt(target_norms.clip(0.5))
    figures: Floats = np.clip(product / norm, -1.0, 1.0)
    return figures

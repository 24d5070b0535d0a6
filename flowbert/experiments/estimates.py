"""Bootstrap estimates as arrays: 95% intervals, differences, and which method to use."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from flowbert.arrays import Floats

_TAIL = (1 - 0.95) / 2


@dataclass(frozen=True, eq=False)
class Estimates:
    """Scores and their bootstrap replicates, row by row.

    Attributes:
        values: The scores, ``(n,)``.
        replicates: The same on each resample, ``(n, R)``; NaN where one is undefined.
    """

    values: Floats
    replicates: Floats

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: Any) -> "Estimates":
        """The estimates of a slice, a mask or an array of indices."""
        return Estimates(self.values[rows], self.replicates[rows])

    def __sub__(self, others: "Estimates") -> "Estimates":
        """Differences on the same resamples; of equal lengths, or one of a single row."""
        return Estimates(
            self.values - others.values, self.replicates - others.replicates
        )

    def mean(self) -> "Estimates":
        """The plain mean as one row: resample r of each enters resample r of the mean."""
        return Estimates(
            self.values.mean(keepdims=True),
            self.replicates.mean(axis=0, keepdims=True),
        )

    @property
    def intervals(self) -> Floats:
        r"""Ends of the 95% intervals, ``(n, 2)``; NaN without a score or replicates.

        Percentiles of the replicates, less twice their bias: Spearman's correlation of few pairs is
        too small on average, so that a score has the bias b, and the replicates the bias 2 b. An
        interval contains its score. ``tests/experiments/test_coverage.py`` simulates the coverage.

        References:
            An Introduction to the Bootstrap (Efron and Tibshirani, 1993), chapters 10 and 13.
        """
        ends: Floats = np.full((len(self), 2), np.nan)
        finite = np.isfinite(self.replicates)
        for row in np.flatnonzero(self.exist):
            value, drawn = self.values[row], self.replicates[row, finite[row]]
            bias = drawn.mean() - value
            low, high = np.quantile(drawn, [_TAIL, 1 - _TAIL]) - 2 * bias
            ends[row] = min(low, value), max(high, value)
            if max(abs(value), np.abs(drawn).max()) <= 1:  # as correlations and shares
                ends[row] = ends[row].clip(-1, 1)
        return ends

    @property
    def exist(self) -> Any:
        """Whether there are a score and an interval, ``(n,)``."""
        return np.isfinite(self.values) & np.isfinite(self.replicates).any(axis=1)

    def texts(self) -> list[str]:
        """Scores and intervals x 100, such as ``"12.4 [10.1, 14.6]"``."""
        return list(map(_text, self.values, self.intervals))


MISSING = Estimates(np.full(1, np.nan), np.full((1, 1), np.nan))
"""A row without a score."""


def concatenate(*parts: Estimates) -> Estimates:
    """The rows of all parts, of as many resamples each, or a single one that is missing."""
    most = max(part.replicates.shape[1] for part in parts)
    replicates = [np.broadcast_to(x.replicates, (len(x), most)) for x in parts]
    values = np.concatenate([part.values for part in parts])
    return Estimates(values, np.concatenate(replicates))


class Comparison:
    """Any two methods compared on the same resamples, and which one to use.

    The intervals are not adjusted for the number of comparisons.

    Args:
        names: Names of the methods, n of them, in the order of preference at equal merit.
        estimates: Their estimates, all of which exist.

    Attributes:
        names: As the argument.
        differences: Score of the row's method minus that of the column's, ``(n, n)``.
        ends: Ends of the 95% intervals of the differences, ``(n, n, 2)``.
        base: Index of ``raw``, or 0.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> values = np.array([0.5, 0.7])
        >>> drawn = Estimates(values, values[:, None] + rng.normal(0, 0.01, (2, 99)))
        >>> Comparison(["raw", "whitening"], drawn).verdict.split(",")[0]
        'use whitening'
    """

    def __init__(self, names: Sequence[str], estimates: Estimates) -> None:
        self.names = list(names)
        self.base = self.names.index("raw") if "raw" in self.names else 0
        self.differences: Floats = estimates.values[:, None] - estimates.values
        self.ends: Floats = np.zeros((*self.differences.shape, 2))
        for row in range(len(estimates) - 1):
            ends = (estimates[[row]] - estimates[row + 1 :]).intervals
            self.ends[row, row + 1 :] = ends
            self.ends[row + 1 :, row] = -ends[:, ::-1]

    @property
    def is_better(self) -> Any:
        """Whether the row's method is significantly better than the column's, ``(n, n)``."""
        return self.ends[..., 0] > 0

    @property
    def used(self) -> int:
        """Index of the method to use, than which no other is significantly better.

        It is ``raw``, or the first method, if no other is better. Otherwise it is the first of
        those that are better than it, or of all if there is none.
        """
        is_best = ~self.is_better.any(axis=0)
        if is_best[self.base]:
            return self.base
        gains = is_best & self.is_better[:, self.base]
        return int((gains if gains.any() else is_best).argmax())

    @property
    def verdict(self) -> str:
        """The method to use, and all that are significantly above or below ``raw``, in one line."""
        base, used = self.names[self.base], self.used
        above, below = self.is_better[:, self.base], self.is_better[self.base]
        others = np.arange(len(self.names)) != used
        equal = others & ~self.is_better[used]
        parts = [f"keep {self.names[used]}: no other is significantly better"]
        if above[used]:
            gain = self.table[used][self.base]
            parts = [f"use {self.names[used]}, {gain} above {base}"]
        for title, chosen, other in (
            ("no significant difference", equal, used),
            (f"also above {base}", above & others, self.base),
            (f"below {base}", below & others, self.base),
        ):
            rows = np.flatnonzero(chosen)
            texts = [f"{self.names[row]} {self.table[row][other]}" for row in rows]
            if texts:
                parts.append(f"{title}: {', '.join(texts)}")
        return "; ".join(parts)

    @cached_property
    def table(self) -> list[list[str]]:
        """Row minus column of any two, with the interval."""
        rows = zip(self.differences, self.ends, strict=True)
        table = [list(map(_text, *row)) for row in rows]
        for number, row in enumerate(table):
            row[number] = ""
        return table


def _text(value: float, ends: Floats) -> str:
    """A score and the ends ``(2,)`` of its interval x 100, without -0.0."""
    low, high = 100 * ends
    return f"{100 * value:z.1f} [{low:z.1f}, {high:z.1f}]"

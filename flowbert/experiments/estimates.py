"""Bootstrap estimates as arrays: 95% intervals, differences, and which method to use."""

from collections.abc import Sequence
from dataclasses import dataclass
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
        """Those of a slice, a mask or an array of indices."""
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
        """Ends of the 95% percentile intervals, ``(n, 2)``; NaN without replicates."""
        ends: Floats = np.full((len(self), 2), np.nan)
        finite = np.isfinite(self.replicates)
        for row in np.flatnonzero(finite.any(axis=1)):
            drawn = self.replicates[row, finite[row]]
            ends[row] = np.quantile(drawn, [_TAIL, 1 - _TAIL])
        return ends

    @property
    def exist(self) -> Any:
        """Whether there are a score and an interval, ``(n,)``."""
        return np.isfinite(self.values) & np.isfinite(self.replicates).any(axis=1)

    @property
    def exclude_zero(self) -> Any:
        """Whether zero lies outside each interval, ``(n,)``."""
        low, high = self.intervals.T
        return (low > 0) | (high < 0)

    def texts(self) -> list[str]:
        """Scores and intervals x 100, such as ``"12.4 [10.1, 14.6]"``."""
        return [
            f"{100 * value:.1f} [{100 * low:.1f}, {100 * high:.1f}]"
            for value, (low, high) in zip(self.values, self.intervals, strict=True)
        ]


MISSING = Estimates(np.full(1, np.nan), np.full((1, 1), np.nan))
"""A row without a score."""


def joined(*parts: Estimates) -> Estimates:
    """The rows of all parts, of as many resamples each, or a single one that is missing."""
    most = max(part.replicates.shape[1] for part in parts)
    shapes = [(len(part), most) for part in parts]
    return Estimates(
        np.concatenate([part.values for part in parts]),
        np.concatenate(
            [
                np.broadcast_to(part.replicates, shape)
                for part, shape in zip(parts, shapes, strict=True)
            ]
        ),
    )


def difference_table(estimates: Estimates) -> list[list[str]]:
    """Row minus column of any two, with the interval."""
    table = []
    for row in range(len(estimates)):
        texts = (estimates[[row]] - estimates).texts()
        texts[row] = ""
        table.append(texts)
    return table


def first_of_best(estimates: Estimates) -> int:
    """The first row that is the best, or does not differ from it significantly.

    Args:
        estimates: At least one row, all of which exist, in the order of preference.
    """
    best = int(estimates.values.argmax())
    is_close = ~(estimates[[best]] - estimates).exclude_zero
    is_close[best] = True
    return int(is_close.argmax())


def verdict(names: Sequence[str], estimates: Estimates) -> str:
    """Which method to use and what it gains over raw, or else over the first one, in one line.

    Args:
        names: Names of the methods, n of them, in the order of preference at equal merit.
        estimates: Theirs, at least two rows, which exist.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> values = np.array([0.5, 0.7])
        >>> drawn = Estimates(values, values[:, None] + rng.normal(0, 0.01, (2, 99)))
        >>> verdict(["raw", "whitening"], drawn).split(",")[0]
        'use whitening'
    """
    names = list(names)
    base = names.index("raw") if "raw" in names else 0
    used = first_of_best(estimates)
    above, lead = estimates - estimates[[base]], estimates - estimates[[used]]
    if used == base:
        parts = [f"use {names[base]}, no method is significantly better"]
    else:
        parts = [f"use {names[used]}, {above.texts()[used]} above {names[base]}"]
    others = np.arange(len(names)) != used
    equal = np.flatnonzero(others & ~lead.exclude_zero)
    if len(equal):
        texts = [f"{names[row]} {lead.texts()[row]}" for row in equal]
        parts.append(f"no significant difference: {', '.join(texts)}")
    worse = np.flatnonzero(others & (above.intervals[:, 1] < 0))
    if len(worse):
        texts = [f"{names[row]} {above.texts()[row]}" for row in worse]
        parts.append(f"below {names[base]}: {', '.join(texts)}")
    return "; ".join(parts)

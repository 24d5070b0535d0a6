"""Bootstrap estimates as arrays: 95% intervals, differences, and which method to use."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from flowbert.arrays import Floats
from flowbert.seeding import Stream

_TAIL = (1 - 0.95) / 2
_TIED = 4  # named rows that do not differ from the one to use


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

    def over_seeds(self, seed: int) -> "Estimates":
        """The mean over seeds, a row each, as one row, which resamples seeds as well as pairs.

        Deviations of the drawn seeds are larger by the root of n / (n - 1), so that their variance
        is that of the mean of n seeds without bias.

        Args:
            seed: Seed; draws from as many seeds are equal, so that averages and differences are of
                the same seeds.
        """
        count, resamples = self.replicates.shape
        rng = Stream(seed, "seeds", batch=count).rng()
        drawn = rng.multinomial(count, [1 / count] * count, size=resamples)
        deviation = (drawn / count - 1 / count) * math.sqrt(count / (count - 1))
        replicates = ((1 / count + deviation.T) * self.replicates).sum(axis=0)
        return Estimates(self.values.mean(keepdims=True), replicates[None])

    def texts(self) -> list[str]:
        """Scores and intervals x 100, such as ``"12.4 [10.1, 14.6]"``."""
        return list(map(_text, self.values, self.intervals))


def concatenate(*parts: Estimates) -> Estimates:
    """The rows of all parts, of as many resamples each."""
    replicates = np.concatenate([part.replicates for part in parts])
    return Estimates(np.concatenate([part.values for part in parts]), replicates)


class Verdict:
    """Rows of a table compared on the same resamples, and which one to use.

    The intervals are not adjusted for the number of comparisons.

    Args:
        names: Names of the rows, n of them, in the order of preference at equal merit.
        estimates: Their estimates, all of which exist.
        base: Index of the row that others have to beat.

    Attributes:
        names: As the argument.
        base: As the argument.
        values: Their scores, ``(n,)``.
        ends: Ends of the 95% intervals of row minus column, ``(n, n, 2)``.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> values = np.array([0.5, 0.7])
        >>> drawn = Estimates(values, values[:, None] + rng.normal(0, 0.01, (2, 99)))
        >>> Verdict(["raw", "whitening"], drawn).text.split(" [")[0]
        'use whitening, 70.0, +20.0'
    """

    def __init__(
        self, names: Sequence[str], estimates: Estimates, base: int = 0
    ) -> None:
        self.names = list(names)
        self.base = base
        self.values = estimates.values
        self.ends: Floats = np.zeros((len(names), len(names), 2))
        for row in range(len(names) - 1):
            ends = (estimates[[row]] - estimates[row + 1 :]).intervals
            self.ends[row, row + 1 :] = ends
            self.ends[row + 1 :, row] = -ends[:, ::-1]

    @property
    def is_better(self) -> Any:
        """Whether the row is significantly better than the column, ``(n, n)``."""
        return self.ends[..., 0] > 0

    @property
    def used(self) -> int:
        """Index of the row to use, than which no other is significantly better.

        It is the base if no other is better. Otherwise it is the first of those that are better
        than the base, or of all if there is none.
        """
        is_best = ~self.is_better.any(axis=0)
        if is_best[self.base]:
            return self.base
        gains = is_best & self.is_better[:, self.base]
        return int((gains if gains.any() else is_best).argmax())

    @property
    def tied(self) -> list[int]:
        """Indices of the rows that do not differ significantly from the one to use."""
        differs = self.is_better[self.used] | self.is_better[:, self.used]
        differs[self.used] = True
        return [int(row) for row in np.flatnonzero(~differs)]

    @property
    def gains(self) -> pd.DataFrame:
        """Each row minus the base x 100: columns gain, low, high, and choice.

        The choice is ``use``, ``tied`` or empty; the base has no gain (NaN).
        """
        gains = pd.DataFrame(self.ends[:, self.base], columns=["low", "high"])
        gains.insert(0, "gain", self.values - self.values[self.base])
        gains.loc[self.base] = np.nan
        gains = (100 * gains).assign(choice="")
        gains.loc[self.tied, "choice"] = "tied"
        gains.loc[self.used, "choice"] = "use"
        return gains

    @property
    def text(self) -> str:
        """What to use, its score x 100, its gain, and the rows that do not differ from it."""
        used, base = self.used, self.base
        score = f"{self.names[used]}, {100 * self.values[used]:z.1f}"
        text = f"keep {score}"
        if used != base:
            gain = _text(self.values[used] - self.values[base], self.ends[used, base])
            sign = "" if gain.startswith("-") else "+"
            text = f"use {score}, {sign}{gain} over {self.names[base]}"
        tied = [self.names[row] for row in self.tied]
        more = [f"{len(tied) - _TIED} more"] if len(tied) > _TIED else []
        return f"{text}; tied: {', '.join(tied[:_TIED] + more)}" if tied else text

    @property
    def table(self) -> list[list[str]]:
        """Row minus column of any two x 100, with the interval."""
        differences = self.values[:, None] - self.values
        rows = zip(differences, self.ends, strict=True)
        table = [list(map(_text, *row)) for row in rows]
        for number, row in enumerate(table):
            row[number] = ""
        return table


def _text(value: float, ends: Floats) -> str:
    """A score and the ends ``(2,)`` of its interval x 100, without -0.0."""
    low, high = 100 * ends
    return f"{100 * value:z.1f} [{low:z.1f}, {high:z.1f}]"

"""Bootstrap estimates: 95% intervals, differences, and which method to use.

Draws ``(n, 1 + R)`` are n scores, each followed by the same on R resamples, NaN where one is
undefined. Rows share the resamples, so that differences and means of rows are those of draws.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from flowbert.arrays import Floats
from flowbert.seeding import Stream

_TAIL = (1 - 0.95) / 2
_TIED = 4  # named rows that do not differ from the one to use


def has_interval(draws: Floats) -> Any:
    """Whether there are a score and a resample of it, ``(n,)``."""
    is_finite = np.isfinite(draws)
    return is_finite[:, 0] & is_finite[:, 1:].any(axis=1)


def find_intervals(draws: Floats) -> Floats:
    r"""Ends of the 95% intervals, ``(n, 2)``; NaN without a score or resamples.

    Percentiles of the resamples, less twice their bias: Spearman's correlation of few pairs is
    too small on average, so that a score has the bias b, and its resamples the bias 2 b. An
    interval contains its score. ``tests/experiments/test_coverage.py`` simulates the coverage.

    Args:
        draws: Draws ``(n, 1 + R)``.

    References:
        An Introduction to the Bootstrap (Efron and Tibshirani, 1993), chapters 10 and 13.

    Example:
        >>> find_intervals(np.array([[0.5, *np.linspace(0.4, 0.6, 201)]])).round(3).tolist()
        [[0.405, 0.595]]
    """
    ends: Floats = np.full((len(draws), 2), np.nan)
    for row in np.flatnonzero(has_interval(draws)):
        finite = draws[row][np.isfinite(draws[row])]
        value, drawn = finite[0], finite[1:]
        bias = drawn.mean() - value
        low, high = np.quantile(drawn, [_TAIL, 1 - _TAIL]) - 2 * bias
        ends[row] = min(low, value), max(high, value)
        if np.abs(finite).max() <= 1:  # as correlations and shares
            ends[row] = ends[row].clip(-1, 1)
    return ends


def average_seeds(draws: Floats, seed: int) -> Floats:
    """The mean over seeds, a row each, as one row, which resamples seeds as well as pairs.

    Deviations of the drawn seeds are larger by the root of n / (n - 1), so that their variance
    is that of the mean of n seeds without bias.

    Args:
        draws: Draws ``(n, 1 + R)``.
        seed: Seed; draws from as many seeds are equal, so that averages and differences are of
            the same seeds.
    """
    count, resamples = draws[:, 1:].shape
    rng = Stream(seed, "seeds", batch=count).rng()
    drawn = rng.multinomial(count, [1 / count] * count, size=resamples)
    deviation = (drawn / count - 1 / count) * math.sqrt(count / (count - 1))
    mean: Floats = draws.mean(axis=0, keepdims=True)
    mean[:, 1:] = ((1 / count + deviation.T) * draws[:, 1:]).sum(axis=0)
    return mean


class Verdict:
    """Rows of a table compared on the same resamples, and which one to use.

    The intervals are not adjusted for the number of comparisons.

    Args:
        names: Names of the rows, n of them, in the order of preference at equal merit.
        draws: Their draws ``(n, 1 + R)``, each with an interval.
        base: Index of the row that others have to beat.

    Attributes:
        names: As the argument.
        base: As the argument.
        values: Their scores, ``(n,)``.
        ends: Ends of the 95% intervals of row minus column, ``(n, n, 2)``.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> values = np.array([0.5, 0.7])
        >>> noise = np.column_stack([np.zeros(2), rng.normal(0, 0.01, (2, 99))])
        >>> Verdict(["raw", "whitening"], values[:, None] + noise).text.split(" [")[0]
        'use whitening, 70.0, +20.0'
    """

    def __init__(self, names: Sequence[str], draws: Floats, base: int = 0) -> None:
        self.names = list(names)
        self.base = base
        self.values = draws[:, 0]
        self.ends: Floats = np.zeros((len(names), len(names), 2))
        for row in range(len(names) - 1):
            ends = find_intervals(draws[row] - draws[row + 1 :])
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

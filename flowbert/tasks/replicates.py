"""One figure of several methods on the same resamples: intervals, differences, averages over tasks."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from flowbert.errors import choices

Floats = NDArray[np.float64]
_TAIL = (1 - 0.95) / 2  # on either side of the 95% percentile interval


@dataclass(frozen=True)
class Interval:
    """A figure, or a difference of two, with its 95% percentile interval.

    Attributes:
        value: The figure on the pairs as they are.
        low: Lower end; NaN if no resample has a figure.
        high: Upper end.
        dropped: Resamples without a figure (constant values), left out.
    """

    value: float
    low: float
    high: float
    dropped: int = 0

    @classmethod
    def of(cls, value: float, resampled: Floats) -> "Interval":
        """The interval of a figure, given the same on each resample, shape ``(R,)``, NaN where there is none."""
        finite = resampled[np.isfinite(resampled)]
        low, high = np.quantile(finite, [_TAIL, 1 - _TAIL]) if len(finite) else (math.nan, math.nan)
        return cls(float(value), float(low), float(high), len(resampled) - len(finite))

    @property
    def excludes_zero(self) -> bool:
        """Whether zero lies outside; False without an interval."""
        return self.low > 0 or self.high < 0

    def text(self) -> str:
        """Value and ends x 100, as ``"12.4 [10.1, 14.6]"``."""
        value, low, high = (f"{100 * number:.1f}" for number in (self.value, self.low, self.high))
        return f"{value} [{low}, {high}]"


@dataclass(frozen=True, eq=False)
class Replicates:
    """One figure of every method on the same resamples.

    Attributes:
        name: What the figure is of: a task, with its metric, or an average.
        methods: Names of the methods, M of them.
        points: The figure on the pairs as they are, shape ``(M,)``.
        values: The figure by resample, NaN where there is none, shape ``(M, R)``.

    Example:
        >>> found = Replicates("T", ("raw", "zca"), np.array([0.5, 0.7]), np.array([[0.4, 0.6], [0.6, 0.8]]))
        >>> found.interval("raw").text(), found.difference("zca", "raw").excludes_zero
        ('50.0 [40.5, 59.5]', True)
    """

    name: str
    methods: tuple[str, ...]
    points: Floats
    values: Floats

    def interval(self, method: str) -> Interval:
        """A method's figure with its interval."""
        row = self._row(method)
        return Interval.of(self.points[row], self.values[row])

    def difference(self, method: str, other: str) -> Interval:
        """``method`` minus ``other`` on the same resamples."""
        row, base = self._row(method), self._row(other)
        return Interval.of(self.points[row] - self.points[base], self.values[row] - self.values[base])

    def usable(self) -> tuple[str, ...]:
        """Methods with a finite figure that has resamples: what can be averaged, ranked and called better."""
        there = np.isfinite(self.points) & np.isfinite(self.values).any(axis=1)
        return tuple(method for method, usable in zip(self.methods, there, strict=True) if usable)

    def only(self, methods: Sequence[str]) -> "Replicates":
        """Some of the methods, in this order."""
        rows = [self._row(method) for method in methods]
        return replace(self, methods=tuple(methods), points=self.points[rows], values=self.values[rows])

    def pooled(self, members: Mapping[str, Sequence[str]]) -> "Replicates":
        """The mean of several methods each, e.g. one per training seed, under new names.

        The interval of the mean holds for these seeds: it tells the pairs' share of the error, not the seeds'.
        """
        rows = [[self._row(member) for member in each] for each in members.values()]
        points = np.stack([self.points[row].mean(axis=0) for row in rows])
        values = np.stack([self.values[row].mean(axis=0) for row in rows])
        return replace(self, methods=tuple(members), points=points, values=values)

    def _row(self, method: str) -> int:
        if method not in self.methods:
            raise ValueError(f"{self.name}: no method {method!r}; {choices(self.methods, method)}")
        return self.methods.index(method)


def average(replicates: Sequence[Replicates], name: str = "Avg") -> Replicates:
    """Plain average over tasks, as the tables' last column: resample r of the average joins resample r of each task.

    Raises:
        ValueError: If there is no task, one comes twice (its resamples would not be independent), or the methods or
            numbers of resamples differ.
    """
    if not replicates:
        raise ValueError("no task to average; allowed: at least one")
    names = [each.name for each in replicates]
    if len(set(names)) != len(names):
        raise ValueError(f"tasks {', '.join(names)}: one comes twice; allowed: each once")
    first = replicates[0]
    for each in replicates[1:]:
        if each.methods != first.methods or each.values.shape != first.values.shape:
            raise ValueError(
                f"{each.name} has the methods {', '.join(each.methods)} and {each.values.shape[1]} resamples; "
                f"needed: {', '.join(first.methods)} and {first.values.shape[1]}, as {first.name}"
            )
    points = np.mean([each.points for each in replicates], axis=0)
    values = np.mean([each.values for each in replicates], axis=0)
    return Replicates(name, first.methods, points, values)

r"""Paired bootstrap over pairs, stratified by subset: how sure a Spearman figure, or a difference of two, is.

A resample is drawn as multiplicities :math:`c_i` of the pairs. With the values presorted once, the mid-ranks of a
resample follow from the cumulative sums of the multiplicities in sorted order, so nothing is sorted again. Ranks are
held doubled and centred, :math:`R = 2 r - (n + 1)`, which makes them whole numbers.
"""

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flowbert.errors import UserError, choices
from flowbert.metrics import spearman_or_nan
from flowbert.tasks.pairs import ScoredPairs
from flowbert.tasks.protocol import AGGREGATIONS, aggregate
from flowbert.tasks.resampling import Block, Counts, blocks, check_resampling

Floats = NDArray[np.float64]
_LEVEL = 0.95


@dataclass(frozen=True)
class Interval:
    """A figure, or a difference of two, with its percentile interval.

    Attributes:
        value: The figure on the pairs as they are.
        low: Lower end; NaN if no resample has a figure.
        high: Upper end.
        level: Coverage aimed at, e.g. 0.95.
        resamples: Resamples that entered.
        dropped: Resamples without a figure (constant values), left out.
    """

    value: float
    low: float
    high: float
    level: float
    resamples: int
    dropped: int

    @property
    def excludes_zero(self) -> bool:
        """Whether zero lies outside; False without an interval."""
        return self.low > 0 or self.high < 0

    def contains(self, value: float) -> bool:
        """Whether a value lies inside, ends included; False without an interval."""
        return self.low <= value <= self.high

    def text(self, scale: float = 100.0, digits: int = 1) -> str:
        """Value and ends times ``scale``, as ``"12.4 [10.1, 14.6]"``."""
        value, low, high = (f"{scale * number:.{digits}f}" for number in (self.value, self.low, self.high))
        return f"{value} [{low}, {high}]"


@dataclass(frozen=True, eq=False)
class Replicates:
    """Figures of every method on the same resamples.

    Attributes:
        task: Name of the task, or of an average.
        methods: Names of the methods, M of them.
        points: Figures on the pairs as they are, in the order of ``AGGREGATIONS``, shape ``(M, 3)``.
        values: Figures by resample, NaN where there is none, shape ``(M, 3, R)``.
        pairs: Number of pairs.
        seed: Seed of the resampling.
    """

    task: str
    methods: tuple[str, ...]
    points: Floats
    values: Floats
    pairs: int
    seed: int

    def interval(self, method: str, aggregation: str = "wmean", level: float = _LEVEL) -> Interval:
        """A method's figure with its interval."""
        row, column = self._row(method), _column(aggregation)
        return _interval(self.points[row, column], self.values[row, column], level)

    def difference(self, method: str, other: str, aggregation: str = "wmean", level: float = _LEVEL) -> Interval:
        """``method`` minus ``other`` on the same resamples."""
        row, base, column = self._row(method), self._row(other), _column(aggregation)
        values = self.values[row, column] - self.values[base, column]
        return _interval(self.points[row, column] - self.points[base, column], values, level)

    def usable(self, aggregation: str = "wmean") -> tuple[str, ...]:
        """Methods with a finite figure that has resamples: what can be averaged, ranked and called better."""
        column = _column(aggregation)
        there = np.isfinite(self.points[:, column]) & np.isfinite(self.values[:, column]).any(axis=1)
        return tuple(method for method, usable in zip(self.methods, there, strict=True) if usable)

    def only(self, methods: Sequence[str]) -> "Replicates":
        """Some of the methods, in this order."""
        rows = [self._row(method) for method in methods]
        return Replicates(self.task, tuple(methods), self.points[rows], self.values[rows], self.pairs, self.seed)

    def pooled(self, name: str, members: Sequence[str]) -> "Replicates":
        """Replace several methods, e.g. one per training seed, by their mean under ``name``.

        The interval of the mean holds for these seeds: it says how sure the pairs make it. How far the seeds are apart
        says :func:`over_seeds`.
        """
        if not members:
            raise UserError(f"no members for {name!r}; {choices(self.methods, name)}")
        rows = [self._row(member) for member in members]
        kept = [row for row, method in enumerate(self.methods) if method not in members]
        methods = (*(self.methods[row] for row in kept), name)
        if len(set(methods)) != len(methods):
            raise UserError(f"name {name!r} is taken; there are {', '.join(self.methods)}")
        points = np.concatenate([self.points[kept], self.points[rows].mean(axis=0, keepdims=True)])
        values = np.concatenate([self.values[kept], self.values[rows].mean(axis=0, keepdims=True)])
        return Replicates(self.task, methods, points, values, self.pairs, self.seed)

    def _row(self, method: str) -> int:
        if method not in self.methods:
            raise UserError(f"{self.task}: no method {method!r}; {choices(self.methods, method)}")
        return self.methods.index(method)


@dataclass(frozen=True)
class SeedSummary:
    """Mean and standard deviation (divisor n - 1; NaN for one) over training seeds."""

    mean: float
    std: float
    seeds: int


@dataclass(frozen=True)
class Verdict:
    """Which method to use on a task.

    Attributes:
        task: Name of the task.
        aggregation: Aggregation of the figures.
        best: Method with the highest figure.
        use: First method, in the order given, that does not differ from the best: give the simplest first.
        noise: Whether the best does not differ from the baseline.
        text: The verdict in one line, figures x 100.
    """

    task: str
    aggregation: str
    best: str
    use: str
    noise: bool
    text: str


def bootstrap(pairs: ScoredPairs, *, resamples: int = 10_000, seed: int = 0, threads: int = 1) -> Replicates:
    """Resample the pairs of each subset with replacement and compute every method's figures on each resample.

    All methods see the same resamples, so their differences are paired. The resamples depend on the seed, the task's
    name and the sizes of its subsets, not on the methods or the number of threads. Each figure equals
    ``scipy.stats.spearmanr`` on the resampled pairs. A resample on which a method or the gold scores are constant has
    no figure: it is NaN here and left out of the intervals, which count it.

    References:
        An Introduction to the Bootstrap (Efron, Tibshirani, 1993), chapter 13.
        https://doi.org/10.1007/978-1-4899-4541-9

    Args:
        pairs: Gold scores and similarities, from :func:`flowbert.tasks.pairs.score_pairs`.
        resamples: Number R of resamples.
        seed: Seed, at least 0.
        threads: Threads that share the work.

    Raises:
        UserError: If a number is out of range, there is no method, or a gold score is not finite.

    Example:
        >>> gold = np.arange(50.0)
        >>> noisy = np.sin(7 * gold) * 20 + gold
        >>> pairs = ScoredPairs("T", "test", ("T",), (gold,), {"exact": (gold,), "noisy": (noisy,)})
        >>> result = bootstrap(pairs, resamples=200)
        >>> result.interval("exact").text(), result.difference("exact", "noisy").excludes_zero
        ('100.0 [100.0, 100.0]', True)
    """
    check_resampling(pairs.task, len(pairs.predicted), resamples=resamples, seed=seed, threads=threads)
    if not all(np.isfinite(scores).all() for scores in pairs.gold):
        raise UserError(f"{pairs.task}: gold scores hold NaN or infinity; allowed: finite numbers")
    plan = _Plan.of(pairs)
    with ThreadPoolExecutor(threads) as pool:
        values = np.concatenate(list(pool.map(plan.figures, blocks(pairs.task, len(pairs), resamples, seed))), axis=2)
    points = np.array([_point(pairs.gold, predicted) for predicted in pairs.predicted.values()])
    return Replicates(pairs.task, tuple(pairs.predicted), points, values, len(pairs), seed)


def average(parts: Sequence[Replicates], name: str = "Avg") -> Replicates:
    """Plain average over tasks, as the tables' last column: resample r of the average joins resample r of each task.

    Raises:
        UserError: If there is no task, one comes twice (its resamples would not be independent), or the methods or
            numbers of resamples differ.
    """
    if not parts:
        raise UserError("no task to average; allowed: at least one")
    tasks = [part.task for part in parts]
    if len(set(tasks)) != len(tasks):
        raise UserError(f"tasks {', '.join(tasks)}: one comes twice; allowed: each once")
    first = parts[0]
    for part in parts[1:]:
        if part.methods != first.methods or part.values.shape != first.values.shape:
            raise UserError(
                f"{part.task} has the methods {', '.join(part.methods)} and {part.values.shape[2]} resamples; "
                f"needed: {', '.join(first.methods)} and {first.values.shape[2]}, as {first.task}"
            )
    points = np.mean([part.points for part in parts], axis=0)
    values = np.mean([part.values for part in parts], axis=0)
    return Replicates(name, first.methods, points, values, sum(part.pairs for part in parts), first.seed)


def over_seeds(figures: Sequence[float]) -> SeedSummary:
    """Mean and standard deviation of one figure over training seeds.

    Example:
        >>> over_seeds([0.5, 1.0, 0.0])
        SeedSummary(mean=0.5, std=0.5, seeds=3)
    """
    if not figures:
        raise UserError("no figures to summarize; allowed: at least one")
    values = np.asarray(figures, dtype=np.float64)
    std = float(values.std(ddof=1)) if len(values) > 1 else math.nan
    return SeedSummary(float(values.mean()), std, len(values))


def verdict(
    replicates: Replicates,
    aggregation: str = "wmean",
    *,
    baseline: str = "raw",
    level: float = _LEVEL,
    label: str | None = None,
) -> Verdict:
    """Say which method to use, or that the difference is noise.

    Each comparison has its own interval; with many methods some differ by chance.

    Args:
        replicates: Of one task or of an average; methods from simple to elaborate.
        aggregation: ``all``, ``mean`` or ``wmean``.
        baseline: Method that the others must beat; the first one if there is no such method.
        level: Coverage of the intervals.
        label: How the line begins, e.g. ``"STSB, target"``; the task's name if None.

    Raises:
        UserError: If there are fewer than two methods with a figure.
    """
    points = replicates.points[:, _column(aggregation)]
    usable = replicates.usable(aggregation)
    if len(usable) < 2:
        raise UserError(f"{replicates.task}: {len(usable)} methods have a figure; a verdict needs at least 2")
    base = baseline if baseline in usable else usable[0]
    best = max(usable, key=lambda method: points[replicates.methods.index(method)])

    def against(method: str, other: str) -> Interval:
        return replicates.difference(method, other, aggregation, level)

    close = [method for method in usable if method != best and not against(best, method).excludes_zero]
    worse = [method for method in usable if method != base and against(method, base).high < 0]
    noise = best == base or base in close
    parts = [_headline(best, base, against(best, base), noise)]
    parts += [f"{best} and {m} do not differ ({against(best, m).text()})" for m in close if m != base]
    parts += [f"{method} is worse than {base} by {against(base, method).text()}" for method in worse]
    use = next(method for method in usable if method == best or method in close)
    return Verdict(replicates.task, aggregation, best, use, noise, f"{label or replicates.task}: {'; '.join(parts)}")


def _headline(best: str, base: str, difference: Interval, noise: bool) -> str:
    if best == base:
        return f"nothing is better than {base}"
    if noise:
        return f"nothing is better than {base}: the lead of {best} is noise ({difference.text()})"
    return f"{best} is better than {base} by {difference.text()}"


def _column(aggregation: str) -> int:
    if aggregation not in AGGREGATIONS:
        raise UserError(f"aggregation is {aggregation!r}; {choices(AGGREGATIONS, aggregation)}")
    return AGGREGATIONS.index(aggregation)


def _interval(value: float, values: Floats, level: float) -> Interval:
    if not 0 < level < 1:
        raise UserError(f"level is {level}; allowed: a number between 0 and 1")
    kept = values[np.isfinite(values)]
    tail = (1 - level) / 2
    low, high = np.quantile(kept, [tail, 1 - tail]) if len(kept) else (math.nan, math.nan)
    return Interval(float(value), float(low), float(high), level, len(kept), len(values) - len(kept))


def _point(gold: Sequence[Floats], predicted: Sequence[Floats]) -> list[float]:
    if len(gold) == 1:
        return [spearman_or_nan(predicted[0], gold[0])] * len(AGGREGATIONS)
    found = aggregate(gold, predicted, warn=False)  # the evaluation told why there is no figure
    return [found["all"], found["mean"], found["wmean"]]


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
        upto = np.cumsum(np.take(counts, self.order, axis=1), axis=1, dtype=np.int32)
        if self.tied:
            upto = np.take(upto, self.ends, axis=1)
        sizes = np.diff(upto, axis=1, prepend=np.int32(0))
        upto *= 2
        upto -= sizes
        upto -= np.int32(total)
        exact = sizes.astype(np.float64)
        norms: Floats = (float(total) ** 3 - np.vecdot(exact * exact, exact)) / 3
        return np.take(upto, self.group, axis=1), norms


@dataclass(frozen=True)
class _Variables:
    """Gold scores and methods of one stretch of pairs, sorted; None for a method without finite values."""

    pairs: slice
    gold: _Ranked
    methods: tuple[_Ranked | None, ...]

    @classmethod
    def of(cls, pairs: slice, gold: Floats, methods: Sequence[Floats]) -> "_Variables":
        ranked = tuple(_Ranked(values) if np.isfinite(values).all() else None for values in methods)
        return cls(pairs, _Ranked(gold), ranked)

    def spearman(self, counts: Counts) -> Floats:
        """Spearman of every method on every resample: shape ``(M, R)``, NaN where a variable is constant."""
        counts = np.ascontiguousarray(counts[:, self.pairs])
        gold, gold_norms = self.gold.ranks(counts)
        weighted: Floats = counts.astype(np.float64) * gold
        return np.array([_correlation(method, counts, weighted, gold_norms) for method in self.methods])


def _correlation(method: _Ranked | None, counts: Counts, gold: Floats, gold_norms: Floats) -> Floats:
    if method is None:
        return np.full(len(counts), np.nan)
    ranks, norms = method.ranks(counts)
    # Squared norms are whole numbers, at least n (n - 1) unless the variable is constant: below 1/2 means zero.
    exists = (norms > 0.5) & (gold_norms > 0.5)
    product = np.vecdot(gold, ranks.astype(np.float64))
    norm = np.sqrt(norms, where=exists, out=np.full_like(norms, np.nan)) * np.sqrt(gold_norms.clip(0.5))
    figures: Floats = np.clip(product / norm, -1.0, 1.0)
    return figures


@dataclass(frozen=True)
class _Plan:
    """Everything that is the same for all resamples of a task."""

    subsets: tuple[_Variables, ...]
    whole: _Variables | None
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, pairs: ScoredPairs) -> "_Plan":
        sizes = tuple(len(scores) for scores in pairs.gold)
        stops = np.cumsum(sizes)
        subsets = [
            _Variables.of(slice(stop - size, stop), pairs.gold[i], [values[i] for values in pairs.predicted.values()])
            for i, (size, stop) in enumerate(zip(sizes, stops, strict=True))
        ]
        whole = None
        if len(sizes) > 1:
            methods = [np.concatenate(values) for values in pairs.predicted.values()]
            whole = _Variables.of(slice(0, len(pairs)), pairs.concatenated(), methods)
        return cls(tuple(subsets), whole, sizes)

    def figures(self, block: Block) -> Floats:
        """Figures of every method under every aggregation on a block: shape ``(M, 3, R)``."""
        counts = block.multiplicities(self.sizes)
        by_subset = np.array([variables.spearman(counts) for variables in self.subsets])
        if self.whole is None:
            return np.repeat(by_subset[0][:, None], len(AGGREGATIONS), axis=1)
        weighted = np.tensordot(np.divide(self.sizes, sum(self.sizes)), by_subset, axes=1)
        return np.stack([self.whole.spearman(counts), by_subset.mean(axis=0), weighted], axis=1)

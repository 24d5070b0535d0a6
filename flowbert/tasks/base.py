"""The contract of what methods are measured on: sentences, values of items, figures, resamples, a headline metric."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from flowbert.data.corpus import Corpus
from flowbert.data.sts import Subset
from flowbert.errors import NoFigureError, UserError
from flowbert.progress import progress
from flowbert.tasks.options import TaskOptions
from flowbert.tasks.protocol import Embed, Floats, Transform
from flowbert.tasks.replicates import Replicates
from flowbert.tasks.resampling import Counts, blocks
from flowbert.threads import in_threads

Measure = tuple[str, str]
"""Metric and aggregation, e.g. ``("spearman", "wmean")``."""

KINDS: dict[str, type["Task"]] = {}
"""Every kind of task by its name, in order of definition."""


class Figure(NamedTuple):
    """One figure in long form; why it does not exist, if it is NaN."""

    metric: str
    aggregation: str
    value: float
    reason: str = ""

    @classmethod
    def of(cls, metric: str, aggregation: str, value: float, reason: str) -> "Figure":
        """A figure whose reason is empty if it exists."""
        return cls(metric, aggregation, value, "" if math.isfinite(value) else reason)


@dataclass(frozen=True, eq=False)
class Measured:
    """What one method has on one task.

    Attributes:
        figures: Its figures.
        items: Values of the items that the figures are computed from, as :meth:`Task.item_values` gives them.
        columns: What else a row of results says of it: task, split, number of pairs, geometry.
    """

    figures: tuple[Figure, ...]
    items: Floats
    columns: Mapping[str, Any]


class Task(ABC):
    """One task and split to measure methods on; figures of the same task are comparable.

    A kind of task is one file with one subclass, ``class Name(Task, kind="name")``, and one import line in
    ``flowbert/tasks/__init__.py``. The class keyword registers the kind for :func:`load_tasks`.

    Attributes:
        kind: Name of the kind.
        measures: The figures, in order; a metric has the aggregations that exist for it, ``all`` if nothing else.
        headline: The metric that a verdict goes by; None without a verdict.
        needs_text: Whether it reads the sentences themselves, so that row numbers of vectors do not do.
        averaged: Whether the headline figure enters one average over tasks, and one verdict, in place of its own.
        name: Name of the task.
        split: Split that is measured.
        item_shape: Shape of the items, ``(N,)``, or ``(K, N)`` for K metrics that are means of values of their own.
        strata: Numbers of units to draw from; each stratum is resampled on its own.

    Shapes:
        N: items, which are resampled, or belong to what is; M: methods; R: resamples.
    """

    kind: ClassVar[str] = ""
    measures: tuple[Measure, ...] = ()
    headline: ClassVar[str | None] = None
    averaged: ClassVar[bool] = False
    needs_text: ClassVar[bool] = False
    name: str
    split: str
    item_shape: tuple[int, ...]
    strata: tuple[int, ...]

    def __init_subclass__(cls, kind: str | None = None, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if kind is not None:
            cls.kind = kind
            KINDS[kind] = cls

    @classmethod
    @abstractmethod
    def load(cls, source: str, options: TaskOptions) -> Sequence[Self]:
        """Load the task of a name or file, one for each split asked for."""

    @property
    @abstractmethod
    def key(self) -> dict[str, Any]:
        """Identity as JSON values; equal keys, equal figures of equal vectors."""

    @abstractmethod
    def sentences(self) -> list[str]:
        """What must be embedded."""

    @abstractmethod
    def pairs(self) -> tuple[Sequence[str], Sequence[str]]:
        """First and second sentences of the pairs that are measured: none of them may be learned from."""

    @abstractmethod
    def corpus(self, name: str) -> Corpus:
        """Its own corpus ``target`` or ``train_only``.

        Raises:
            UserError: If it has no train split.
        """

    def labelled(self) -> Sequence[Subset]:
        """Its own labelled pairs to learn from; empty if there are none outside the split measured on."""
        return ()

    @property
    def columns(self) -> dict[str, Any]:
        """What a row of results says of the task."""
        return {"task": self.name, "split": self.split, "pairs": self.item_shape[-1]}

    @property
    def references(self) -> Mapping[str, Floats]:
        """Values of the items under what is no method but stands beside them, e.g. the gold score."""
        return {}

    @abstractmethod
    def prepare(self, embed: Embed) -> Any:
        """Look up the embeddings once for all methods."""

    @abstractmethod
    def item_values(self, prepared: Any, transform: Transform | None) -> Floats:
        """Values of the items under one map.

        Raises:
            NoFigureError: If there are none.
        """

    @abstractmethod
    def aggregate(self, items: Floats) -> list[float]:
        """The figures of these items, in the order of :attr:`measures`; NaN where one does not exist."""

    def reason(self, items: Floats) -> str:
        """Why a figure of these items does not exist."""
        return "a value is NaN or infinite"

    @abstractmethod
    def estimator(self, items: Sequence[Floats]) -> Callable[[Counts], Floats]:
        """A function from multiplicities of the units, ``(R, units)``, to the figures of M methods on each resample.

        These have the shape ``(measures, M, R)``, NaN where one does not exist.
        """

    def measure(self, prepared: Any, transform: Transform | None = None, flaw: str | None = None) -> Measured:
        """Figures under one map; what does not exist is NaN and says why.

        Args:
            prepared: From :meth:`prepare`.
            transform: Fitted map ``(M, D) -> (M, k)``; None leaves the embeddings raw.
            flaw: Why the map's figures mean nothing, if they do: they are NaN then.
        """
        if flaw is None:
            try:
                return self.measure_items(self.item_values(prepared, transform))
            except NoFigureError as error:
                flaw = str(error)
        return self.measure_items(np.full(self.item_shape, math.nan), flaw)

    def measure_items(self, items: Floats, reason: str | None = None) -> Measured:
        """Figures of the items' values; ``reason`` says why they are NaN, if they are."""
        values = self.aggregate(items)
        if reason is None:
            reason = self.reason(items)
        figures = (Figure.of(*measure, value, reason) for measure, value in zip(self.measures, values, strict=True))
        return Measured(tuple(figures), items, self.columns)

    def resample(
        self, items: Mapping[str, Floats], *, resamples: int = 1000, seed: int = 0
    ) -> dict[Measure, Replicates]:
        """Resample the task's units with replacement and compute all figures of every method on each resample.

        All methods see the same resamples, so their differences are paired. The resamples depend on the seed, the
        task's name and the sizes of its strata, not on the methods or the number of threads.

        References:
            An Introduction to the Bootstrap (Efron, Tibshirani, 1993), chapters 8 and 13.
            https://doi.org/10.1007/978-1-4899-4541-9

        Args:
            items: Method -> values of the items; :attr:`references` are added before them.
            resamples: Number R of resamples.
            seed: Seed, at least 0.

        Returns:
            Measure -> replicates.

        Raises:
            UserError: If a number is out of range.
            ValueError: If there is no method.
        """
        methods = {**self.references, **items}
        if not methods:
            raise ValueError(f"{self.name}: no method to resample; allowed: at least one")
        for name, value, least in (("resamples", resamples, 1), ("seed", seed, 0)):
            if value < least:
                raise UserError(f"{name}: received {value}; allowed: a whole number of at least {least}")
        estimate = self.estimator(list(methods.values()))
        drawn = list(blocks(self.name, self.item_shape[-1], resamples, seed))
        figures = []
        with (
            in_threads(lambda block: estimate(block.multiplicities(self.strata)), drawn) as estimates,
            progress(resamples, f"Resampling {self.name}", "resamples") as step,
        ):
            for block, found in zip(drawn, estimates, strict=True):
                figures.append(found)
                step.update(block.resamples)
        values = np.concatenate(figures, axis=-1)
        points = np.array([self.aggregate(each) for each in methods.values()]).T
        return {
            measure: Replicates(self.title(measure[0]), tuple(methods), points[row], values[row])
            for row, measure in enumerate(self.measures)
        }

    def title(self, metric: str) -> str:
        """How a verdict by this metric names the task."""
        return self.name if self.averaged else f"{self.name} {metric}"


def load_tasks(names: Mapping[str, Sequence[str]], options: TaskOptions) -> list[Task]:
    """Load tasks by kind.

    Args:
        names: Kind (``sts``, ``retrieval``, ...) -> names or files; one that begins with another kind and a colon is of
            that kind, so that what takes tasks takes every kind of them.
        options: How to read and measure them.

    Raises:
        UserError: If a task cannot be loaded, or two of a kind have one name and split.

    Example:
        >>> import flowbert.tasks
        >>> [task] = load_tasks({"sts": ["SAMPLE"]}, TaskOptions())
        >>> task.kind, task.name, task.split, task.item_shape
        ('sts', 'SAMPLE', 'test', (1000,))
    """
    chosen: list[tuple[str, str]] = []
    for kind, mine in names.items():
        for name in mine:
            prefix, _, rest = name.partition(":")
            if prefix not in KINDS:
                chosen.append((kind, name))
            elif (prefix, rest) not in chosen:
                chosen.append((prefix, rest))
    for kind, name in chosen:
        if options.vectors is not None and KINDS[kind].needs_text:
            allowed = ", ".join(kind for kind, found in KINDS.items() if not found.needs_text)
            raise UserError(f"{kind}: received {name!r}, which needs sentences; allowed with vectors: {allowed}")
    tasks = [task for kind, name in chosen for task in KINDS[kind].load(name, options)]
    known: set[tuple[str, str, str]] = set()
    for task in tasks:
        if (task.kind, task.name, task.split) in known:
            raise UserError(f"tasks: two are called {task.name!r}; allowed: files of different names")
        known.add((task.kind, task.name, task.split))
    return tasks

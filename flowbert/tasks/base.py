"""Base classes of tasks, which score vectors of sentences, and their bootstrap."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from torch import Tensor

from flowbert.arrays import Floats, Indices
from flowbert.data.corpus import Corpus
from flowbert.data.scored_pairs import Subset
from flowbert.errors import UserError
from flowbert.io import digest, sentences_digest
from flowbert.registry import Registry
from flowbert.seeding import Stream
from flowbert.tasks.measures import Counts, draw_counts, unit_rows
from flowbert.threads import in_threads

ScoreName = tuple[str, str]
"""Name and aggregation, such as ``("spearman", "wmean")``."""

Scorer = Callable[[Counts], Floats]
"""From multiplicities of resamples ``(R, units)`` to scores ``(metrics, methods, R)``."""

AVERAGE = "average"
"""Name of the row of means over tasks; no task has it."""

_STATE = ("name", "split", "metrics", "strata", "count", "digest")
_BLOCK_VALUES = 1 << 16  # resampled at a time: they stay in the processor's cache


@dataclass(frozen=True, eq=False)
class Record:
    """Measurements of an experiment, and the settings that determine them.

    Attributes:
        items: A number per pair or question, ``(K,)``.
        scores: Scores by metric.
        reasons: Reason of each score that is NaN.
        key: Digest of everything that determines the scores.
        columns: Encoder, method, task and so on, as in a table of results.
        settings: All settings in words.
        invalid_reason: Why all scores are undefined, or None.
        warnings: Warnings of the fit.
        task: The task that scores the items, or its :meth:`Task.state`.
        sample: Vectors ``(S, k)`` of :attr:`sentences`, or None if they are not kept.
        sentences: Some of the task's sentences.
    """

    items: Floats
    scores: dict[ScoreName, float]
    reasons: dict[ScoreName, str] = field(default_factory=dict)
    key: str = ""
    columns: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    invalid_reason: str | None = None
    warnings: Sequence[str] = ()
    task: Any = None
    sample: Tensor | None = None
    sentences: Sequence[str] = ()


class Task(ABC):
    """One split of a data set that embeddings are measured on.

    A custom task, most often a :class:`PairTask`, defines the attributes below and :meth:`items`,
    :meth:`score`, :meth:`texts` and :meth:`pairs`. It is named ``KIND:SOURCE``; KIND is the name of
    its class in :data:`TASKS`, or its import path. Intervals and verdicts come from :meth:`score`
    of the items that the bootstrap draws.

    Attributes:
        options: Options of :func:`load_tasks` that :meth:`load` takes.
        metrics: Metrics of :meth:`score`, in order.
        headline: Metric of verdicts; None for a task without verdicts.
        averaged: Whether its metric ``spearman`` enters the average over tasks.
        scored_with: Names of the attributes that scores depend on besides the items: arrays,
            numbers, texts or tuples of them. Results store them, and the digest contains them. An
            attribute of K values, one for each item, is resampled with the items.
        name: Name in tables.
        split: Measured split.
        sentences: Distinct sentences to embed, M of them.
        strata: Sizes of the groups of units that the bootstrap resamples separately.
        count: Number of items K.
    """

    options: ClassVar[tuple[str, ...]] = ()
    metrics: tuple[ScoreName, ...]
    headline: ClassVar[str | None] = None
    averaged: ClassVar[bool] = False
    scored_with: ClassVar[tuple[str, ...]] = ()
    name: str
    split: str
    sentences: list[str]
    strata: tuple[int, ...]
    count: int

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name}, {self.split} split, {self.count} items)"

    @classmethod
    def load(cls, source: Any, **options: Any) -> Sequence["Task"]:
        """The tasks of a source, such as one for each split.

        Args:
            source: SOURCE in ``KIND:SOURCE``.
            **options: Values of :attr:`options`.

        Raises:
            UserError: If the source has no such task.
        """
        make: Any = cls
        return [make(source, **options)]

    @property
    def kind(self) -> str:
        """Prefix of the task on the command line."""
        return TASKS.name_of(type(self))

    @property
    def columns(self) -> dict[str, Any]:
        """Columns of results: task, split and pairs."""
        return {"task": self.name, "split": self.split, "pairs": self.count}

    @cached_property
    def digest(self) -> str:
        """Digest of the task: tasks with equal digests give equal vectors equal scores."""
        values = [getattr(self, name) for name in self.scored_with]
        plain = [
            each.tolist() if isinstance(each, np.ndarray) else each for each in values
        ]
        return digest(
            *(self.kind, self.name, self.split, self.strata, self.metrics, plain),
            *(sentences_digest(side) for side in self.pairs()),
        )

    @abstractmethod
    def items(self, vectors: Tensor) -> Floats:
        """A number per pair or question, ``(K,)``, for vectors ``(M, k)`` of the sentences."""

    @abstractmethod
    def score(self, items: Floats) -> dict[ScoreName, float]:
        """Scores of the items by metric; NaN where one is undefined.

        Args:
            items: From :meth:`items`, ``(K,)``, all finite.
        """

    def scorer(self, items: Sequence[Floats]) -> Scorer:
        """Scores of M methods on resamples: :meth:`score` of the drawn items.

        A task may override this with a faster function of the same values. It must override it if
        it resamples other units than items.

        Args:
            items: Items of the methods, ``(K,)`` each.

        Returns:
            A function from multiplicities of R resamples ``(R, units)`` to scores
            ``(metrics, M, R)``.
        """

        def scores(counts: Counts) -> Floats:
            by_resample = []
            for drawn in counts:
                rows = np.repeat(np.arange(self.count), drawn)
                task = self.take(rows)
                by_method = [task.score(each[rows]) for each in items]
                by_resample.append(
                    [[x[name] for name in self.metrics] for x in by_method]
                )
            return np.array(by_resample, dtype=np.float64).T

        return scores

    def take(self, rows: Indices) -> Self:
        """The task restricted to some items, for scoring only; an item may occur several times.

        Args:
            rows: Indices of the items, ``(K,)``.
        """
        state = self.state()
        for name in self.scored_with:
            value = state[name]
            if (
                isinstance(value, np.ndarray | tuple | list)
                and len(value) == self.count
            ):
                state[name] = np.asarray(value)[rows]
        return self.from_state(state)

    @abstractmethod
    def texts(self) -> Mapping[str, Sequence[str]]:
        """Every occurrence of every sentence, by split."""

    @abstractmethod
    def pairs(self) -> tuple[Sequence[str], Sequence[str]]:
        """First and second sentences of the measured pairs, from which no method may learn."""

    def corpus(self, name: str) -> Corpus:
        """The corpus ``target`` (all splits of the task) or ``train_only``.

        Raises:
            UserError: If the task has no train split.
        """
        texts = self.texts()
        if name == "target":
            return Corpus.of(name, chain.from_iterable(texts.values()))
        if "train" not in texts:
            raise UserError(
                f"received {name!r}; the task {self.name} has no train split",
                argument="corpus",
            )
        return Corpus.of(name, texts["train"])

    def settings(self) -> dict[str, Any]:
        """The settings of the measurement in words."""
        return {
            "kind": self.kind,
            "name": self.name,
            "split": self.split,
            "items": self.count,
            "digest": self.digest,
        }

    def state(self) -> dict[str, Any]:
        """Arrays and plain values, from which :func:`load_scoring` restores the task."""
        names = (*_STATE, *self.scored_with)
        return {"kind": self.kind} | {name: getattr(self, name) for name in names}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """See :func:`load_scoring`."""
        task = cls.__new__(cls)
        for name in (*_STATE, *cls.scored_with):
            setattr(task, name, _as_tuple(state[name]))
        return task

    def labels(self) -> Sequence[Subset]:
        """Labelled pairs of the task that a supervised method may learn from."""
        return ()

    def extras(self, vectors: Tensor, items: Floats) -> dict[ScoreName, float]:
        """Scores without confidence intervals, such as alignment and uniformity."""
        return {}

    def reason(self, items: Floats, metric: ScoreName) -> str:
        """Why a score of these items is undefined."""
        invalid = int((~np.isfinite(items)).sum())
        if not invalid:
            return f"{metric[0]} of these {len(items)} items is NaN"
        return f"{invalid} of {len(items)} items are NaN or infinite"

    @property
    def references(self) -> Mapping[str, Floats]:
        """Items of additional rows of tables, by name, such as the gold score."""
        return {}

    def measure(self, vectors: Tensor, invalid_reason: str | None = None) -> Record:
        """All scores of vectors ``(M, k)``; NaN if ``invalid_reason`` is given."""
        if invalid_reason is None and not bool(vectors.isfinite().all()):
            invalid_reason = "embeddings are NaN or infinite"
        scores = dict.fromkeys(self.metrics, math.nan)
        if invalid_reason is not None:
            reasons = dict.fromkeys(scores, invalid_reason)
            return Record(np.full(self.count, math.nan), scores, reasons, task=self)
        items = self.items(vectors)
        if np.isfinite(items).all():
            scores = self.score(items)
        return self.measured(items, scores | self.extras(vectors, items))

    def measured(self, items: Floats, scores: dict[ScoreName, float]) -> Record:
        """Scores with the reasons of those that are NaN."""
        missing = [metric for metric, value in scores.items() if math.isnan(value)]
        reasons = {metric: self.reason(items, metric) for metric in missing}
        return Record(items, scores, reasons, task=self)

    def resample(
        self, items: Mapping[str, Floats], resamples: int = 1000, seed: int = 0
    ) -> dict[ScoreName, Floats]:
        """Bootstrap the scores of several methods on the same resamples.

        Args:
            items: Items by method, all finite.
            resamples: Number of resamples R.
            seed: Seed.

        Returns:
            Scores ``(methods, R)`` by metric.
        """
        scores = self.scorer(list(items.values()))
        size = max(1, _BLOCK_VALUES // self.count)

        def block(start: int) -> Floats:
            # By its index: blocks do not depend on the order in which they are computed.
            stream = Stream(seed, "bootstrap", batch=start // size, of=self.name)
            drawn = min(size, resamples - start)
            return scores(draw_counts(self.strata, drawn, stream))

        with in_threads(block, range(0, resamples, size)) as parts:
            replicates = np.concatenate(list(parts), axis=-1)
        return dict(zip(self.metrics, replicates, strict=True))


def _as_tuple(value: Any) -> Any:
    """Tuples in place of the lists of JSON."""
    return tuple(map(_as_tuple, value)) if isinstance(value, list | tuple) else value


TASKS: Registry[type[Task]] = Registry(
    "task",
    base=Task,
    extras={
        "answers": "flowbert.extras.tasks.answers.AnswerRanking",
        "lexical": "flowbert.extras.tasks.lexical.Lexical",
        "lexical-characters": "flowbert.extras.tasks.lexical.LexicalCharacters",
        "probe": "flowbert.extras.tasks.probe.Probe",
        "prompteol": "flowbert.extras.tasks.prompteol.PromptEOLSTS",
    },
)
"""Kinds of tasks by name."""


COSINE_DECIMALS = 10  # equal texts have equal cosines on every machine


class PairTask(Task):
    """Pairs of sentences; the items are the cosines of the pairs.

    A subclass defines :attr:`metrics` and :meth:`score`.

    Args:
        name: Name in tables.
        first: First sentences, K of them.
        second: Second sentences, K of them.
        split: Measured split.
        strata: Sizes of the groups of pairs that the bootstrap resamples separately; None for one.
        sentences: The distinct sentences in another order than that of the pairs.
    """

    def __init__(
        self,
        name: str,
        first: Sequence[str],
        second: Sequence[str],
        split: str = "test",
        strata: Sequence[int] | None = None,
        sentences: Iterable[str] | None = None,
    ) -> None:
        self.name = name
        self.split = split
        self.count = len(first)
        self.strata = (self.count,) if strata is None else tuple(strata)
        self.sentences = list(dict.fromkeys(sentences or [*first, *second]))
        rows = pd.Index(self.sentences)
        self.left, self.right = rows.get_indexer(first), rows.get_indexer(second)
        self._pairs = first, second

    def items(self, vectors: Tensor) -> Floats:
        """Cosine of each pair, float64, rounded to 10 decimals."""
        products = unit_rows(vectors[self.left]) * unit_rows(vectors[self.right])
        cosines = products.sum(dim=1).clamp(-1.0, 1.0)
        return np.round(cosines.cpu().numpy(), COSINE_DECIMALS)

    def pairs(self) -> tuple[Sequence[str], Sequence[str]]:
        """First and second sentences."""
        return self._pairs

    def texts(self) -> Mapping[str, Sequence[str]]:
        """First and second sentences, as the measured split."""
        first, second = self._pairs
        return {self.split: [*first, *second]}

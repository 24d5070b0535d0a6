"""What all tasks share: sentences in, items and scores out, and resamples of them."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from torch import Tensor

from flowbert.data.corpus import Corpus
from flowbert.data.sts import Subset
from flowbert.errors import UserError
from flowbert.tasks.bootstrap import Counts, Floats, resample_blocks
from flowbert.tasks.measures import unit_rows
from flowbert.threads import in_threads

Metric = tuple[str, str]
"""Name and aggregation, such as ``("spearman", "wmean")``."""

COSINE_DECIMALS = 10  # equal texts have equal cosines on every machine


@dataclass(frozen=True)
class Measured:
    """Figures of one method on one task.

    Attributes:
        items: A number per pair or question, ``(K,)``.
        scores: Figures by metric.
        reason: Why figures are NaN, if they are.
    """

    items: Floats
    scores: dict[Metric, float]
    reason: str = ""


class Task(ABC):
    """One split of a data set that embeddings are measured on.

    Attributes:
        kind: Prefix of the task on the command line.
        metrics: Metrics of :meth:`score`, in order.
        headline: Metric that verdicts go by; None without.
        averaged: Whether the headline enters the average over tasks.
        name: Name in tables.
        split: Measured split.
        sentences: Distinct sentences to embed, M of them.
        strata: Sizes of the groups of units that the bootstrap resamples separately.
        count: Number of items K.
        digest: Identity: equal digests, equal figures of equal vectors.
    """

    kind: ClassVar[str]
    metrics: tuple[Metric, ...]
    headline: ClassVar[str | None] = None
    averaged: ClassVar[bool] = False
    name: str
    split: str
    sentences: list[str]
    strata: tuple[int, ...]
    count: int
    digest: str

    @abstractmethod
    def items(self, vectors: Tensor) -> Floats:
        """A number per pair or question, ``(K,)``, for vectors ``(M, k)`` of the sentences."""

    @abstractmethod
    def score(self, items: Floats) -> dict[Metric, float]:
        """Figures of the items, NaN where one does not exist."""

    @abstractmethod
    def estimator(self, items: Sequence[Floats]) -> Callable[[Counts], Floats]:
        """A function from multiplicities ``(R, units)`` to figures ``(metrics, methods, R)``."""

    @abstractmethod
    def corpus(self, name: str) -> Corpus:
        """The task's own corpus ``target`` or ``train_only``."""

    @abstractmethod
    def pairs(self) -> tuple[Sequence[str], Sequence[str]]:
        """First and second sentences that are measured: no method may learn from these pairs."""

    def labels(self) -> Sequence[Subset]:
        """Labelled pairs of the task that a supervised method may learn from."""
        return ()

    def extras(self, vectors: Tensor, items: Floats) -> dict[Metric, float]:
        """Figures without confidence intervals, such as alignment and uniformity."""
        return {}

    def reason(self, items: Floats) -> str:
        """Why a figure of these items does not exist; empty if all do."""
        invalid = int((~np.isfinite(items)).sum())
        return f"{invalid} of {len(items)} items are NaN or infinite" if invalid else ""

    @property
    def references(self) -> Mapping[str, Floats]:
        """Items of what is no method but stands in the same table, such as the gold score."""
        return {}

    def measure(self, vectors: Tensor, flaw: str | None = None) -> Measured:
        """All figures of vectors ``(M, k)``; NaN with the reason where ``flaw`` names one."""
        if flaw is not None or not bool(vectors.isfinite().all()):
            items = np.full(self.count, math.nan)
            reason = flaw or "embeddings are NaN or infinite"
            return Measured(items, dict.fromkeys(self.metrics, math.nan), reason)
        items = self.items(vectors)
        scores = self.score(items) | self.extras(vectors, items)
        return Measured(items, scores, self.reason(items))

    def resample(
        self, items: Mapping[str, Floats], resamples: int = 1000, seed: int = 0
    ) -> dict[Metric, Floats]:
        """Bootstrap the figures of several methods on the same resamples.

        Args:
            items: Items by method.
            resamples: Number of resamples R.
            seed: Seed.

        Returns:
            Figures ``(methods, R)`` by metric.
        """
        estimate = self.estimator(list(items.values()))
        blocks = list(
            resample_blocks(self.name, self.strata, self.count, resamples, seed)
        )
        with in_threads(lambda block: estimate(block.counts()), blocks) as parts:
            figures = np.concatenate(list(parts), axis=-1)
        return dict(zip(self.metrics, figures, strict=True))


def cosines(left: Tensor, right: Tensor) -> Floats:
    """Cosine of each pair of rows ``(K, D)``, float64, rounded to 10 decimals."""
    products = (unit_rows(left) * unit_rows(right)).sum(dim=1)
    return np.round(products.clamp(-1.0, 1.0).cpu().numpy(), COSINE_DECIMALS)


def own_corpus(task: str, name: str, sentences: Mapping[str, Sequence[str]]) -> Corpus:
    """The corpus ``target`` (all splits) or ``train_only`` of a task.

    Raises:
        UserError: If the task has no train split.
    """
    if name == "target":
        return Corpus.of(name, [text for texts in sentences.values() for text in texts])
    if name not in ("train_only",) or "train" not in sentences:
        raise UserError(
            f"corpus: received {name!r}; the task {task} has no train split"
        )
    return Corpus.of(name, sentences["train"])

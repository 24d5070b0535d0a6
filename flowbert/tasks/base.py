"""What a method can be measured on: STS pairs, answer ranking, retrieval, each as results rows."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from flowbert.data.answers import AnswerTask
from flowbert.data.corpus import Corpus, corpus_of_task, sentences_digest
from flowbert.data.sts import STSTask, Subset, sentence_pairs
from flowbert.errors import NoFigureError, UserError
from flowbert.evaluation.code import code_digest
from flowbert.evaluation.results import Row, rows_of
from flowbert.metrics import no_spearman
from flowbert.tasks.lexical import GOLD, edit_distance_metric, lexical_figures, lexical_pairs
from flowbert.tasks.pairs import ScoredPairs
from flowbert.tasks.protocol import (
    POSITIVE_ABOVE,
    Embed,
    PairEmbeddings,
    Transform,
    cosine,
    embed_pairs,
    evaluate_pairs,
    similarities,
)
from flowbert.tasks.ranking import ranking_figures
from flowbert.tasks.ranking_bootstrap import METRICS
from flowbert.tasks.retrieval import METRICS as RETRIEVAL_METRICS
from flowbert.tasks.retrieval import retrieval_task, retrieve

Result = TypeVar("Result")
Kept = tuple[NDArray[np.float64], ...]


@dataclass(frozen=True, eq=False)
class Measured:
    """Rows of one method on one job, and what is kept of it for the intervals: see :meth:`Job.scored`."""

    rows: list[Row]
    kept: Kept


class Job(ABC):
    """One task and split to measure methods on; figures of the same job are comparable."""

    name: str
    split: str

    @cached_property
    @abstractmethod
    def key(self) -> dict[str, Any]:
        """Identity of the job as JSON values: equal keys, equal figures of equal vectors."""

    @abstractmethod
    def sentences(self) -> list[str]:
        """What must be embedded."""

    @abstractmethod
    def pairs(self) -> tuple[Sequence[str], Sequence[str]]:
        """First and second sentences of the pairs that are measured: none of them may be learned from."""

    @abstractmethod
    def corpus(self, name: str) -> Corpus:
        """Its own corpus ``target`` or ``train_only``."""

    @abstractmethod
    def labelled(self) -> list[Subset]:
        """Its own labelled pairs to learn from; empty if there are none outside the split measured on."""

    @abstractmethod
    def scored(self) -> tuple[tuple[str, ...], Kept]:
        """Names and gold values of what is kept of every method: similarities by subset, or values by metric."""

    @abstractmethod
    def prepare(self, embed: Embed) -> Any:
        """Look up the embeddings once for all methods."""

    @abstractmethod
    def measure(
        self, prepared: Any, transform: Transform | None, columns: Mapping[str, Any], flaw: str | None = None
    ) -> Measured:
        """Figures under one map; what does not exist is NaN, and the rows say why.

        Args:
            prepared: From :meth:`prepare`.
            transform: Fitted map ``(M, D) -> (M, k)``; None leaves the embeddings raw.
            columns: The other columns of the rows, as :func:`flowbert.evaluation.rows_of` takes them.
            flaw: Why the map's figures mean nothing, if they do: they are NaN then.
        """


class _TaskJob(Job):
    """A job made of an STS task."""

    def __init__(self, task: STSTask, split: str, positive_above: float) -> None:
        self.task = task
        self.name = task.name
        self.split = split
        self.positive_above = positive_above
        task.split(split)

    def sentences(self) -> list[str]:
        """What must be embedded."""
        return self.task.sentences([self.split])

    def pairs(self) -> tuple[Sequence[str], Sequence[str]]:
        """First and second sentences of the split."""
        return sentence_pairs(self.task.split(self.split))

    def corpus(self, name: str) -> Corpus:
        """Its own corpus ``target`` or ``train_only``."""
        return corpus_of_task(name, self.task)

    def labelled(self) -> list[Subset]:
        """Its own labelled pairs to learn from, if any."""
        return self.task.splits.get("train", []) if self.split != "train" else []

    def _digest(self) -> str:
        subsets = self.task.split(self.split)
        scores = [f"{subset.name} {subset.scores.tolist()}" for subset in subsets]
        return sentences_digest([*self.sentences(), *scores])


class STSJob(_TaskJob):
    """Spearman of cosine and gold score, with alignment and uniformity.

    Args:
        task: The task.
        split: The split to measure on.
        positive_above: Gold score above which a pair counts as positive for the alignment.
        uniformity_limit: Draw this many distinct sentences for the uniformity if there are more; None takes all.

    Raises:
        UserError: If the task lacks the split.
    """

    def __init__(
        self,
        task: STSTask,
        split: str = "test",
        positive_above: float = POSITIVE_ABOVE,
        uniformity_limit: int | None = None,
    ) -> None:
        super().__init__(task, split, positive_above)
        self.uniformity_limit = uniformity_limit

    @cached_property
    def key(self) -> dict[str, Any]:
        """Identity of the job as JSON values."""
        limits = {"positive_above": self.positive_above, "uniformity_limit": self.uniformity_limit}
        return {"kind": "sts", "task": self.name, "split": self.split, "pairs": self._digest(), **limits}

    def scored(self) -> tuple[tuple[str, ...], Kept]:
        """Gold scores by subset."""
        subsets = self.task.split(self.split)
        return tuple(subset.name for subset in subsets), tuple(subset.scores for subset in subsets)

    def prepare(self, embed: Embed) -> PairEmbeddings:
        """Look up the embeddings once for all methods."""
        return embed_pairs(self.task, self.split, embed)

    def measure(
        self, prepared: Any, transform: Transform | None, columns: Mapping[str, Any], flaw: str | None = None
    ) -> Measured:
        """Figures under one map."""
        pairs: PairEmbeddings = prepared
        if transform is not None and flaw is None:
            pairs = replace(pairs, embeddings=transform(pairs.embeddings))
        figures = evaluate_pairs(
            pairs, positive_above=self.positive_above, uniformity_limit=self.uniformity_limit, flaw=flaw
        )
        kept = tuple(similarities(pairs)) if flaw is None else _nothing(self)
        return Measured(rows_of(figures, **columns), kept)


class RetrievalJob(_TaskJob):
    """Recall@k and MRR@10 of finding the second sentence of a positive pair among all second sentences."""

    def __init__(self, task: STSTask, split: str = "test", positive_above: float = POSITIVE_ABOVE) -> None:
        super().__init__(task, split, positive_above)
        self.retrieval = retrieval_task(task, split, positive_above=positive_above)

    @cached_property
    def key(self) -> dict[str, Any]:
        """Identity of the job as JSON values."""
        limits = {"positive_above": self.positive_above}
        return {"kind": "retrieval", "task": self.name, "split": self.split, "pairs": self._digest(), **limits}

    def scored(self) -> tuple[tuple[str, ...], Kept]:
        """A perfect ranking's value of each query, by metric."""
        return RETRIEVAL_METRICS, (np.ones(len(self.retrieval.queries)),) * len(RETRIEVAL_METRICS)

    def prepare(self, embed: Embed) -> Any:
        """Look up the embeddings once for all methods."""
        return _looked_up(embed, [*self.retrieval.queries, *self.retrieval.documents])

    def measure(
        self, prepared: Any, transform: Transform | None, columns: Mapping[str, Any], flaw: str | None = None
    ) -> Measured:
        """Figures under one map."""
        pairs = len(self.retrieval.relevant)
        try:
            figures = _unflawed(flaw, lambda: retrieve(self.retrieval, prepared, transform))
        except NoFigureError as error:
            return Measured(_no_rows(self, RETRIEVAL_METRICS, pairs, columns, str(error)), _nothing(self))
        values = {metric: float(by_query.mean()) for metric, by_query in figures.by_query.items()}
        kept = tuple(figures.by_query[metric] for metric in RETRIEVAL_METRICS)
        return Measured(_rows(self, values, pairs, columns), kept)


class AnswersJob(Job):
    """Answer ranking: AUC, MAP, MRR."""

    split = "test"

    def __init__(self, task: AnswerTask) -> None:
        self.task = task
        self.name = task.name

    @cached_property
    def key(self) -> dict[str, Any]:
        """Identity of the job as JSON values."""
        pairs = [str(self.task.question_of.tolist()), str(self.task.labels.tolist())]
        return {"kind": "answers", "task": self.name, "pairs": sentences_digest([*self.sentences(), *pairs])}

    def sentences(self) -> list[str]:
        """What must be embedded."""
        return self.task.sentences()

    def pairs(self) -> tuple[Sequence[str], Sequence[str]]:
        """Question and candidate of each pair."""
        return [self.task.questions[number] for number in self.task.question_of], self.task.answers

    def corpus(self, name: str) -> Corpus:
        """Its own corpus ``target`` or ``train_only``."""
        if name != "target":
            raise UserError(f"corpus {name!r}: task {self.name} has no train split; allowed: target, nli, files")
        return Corpus.of(name, self.task.sentences())

    def labelled(self) -> list[Subset]:
        """Its own labelled pairs to learn from, if any."""
        return []

    def scored(self) -> tuple[tuple[str, ...], Kept]:
        """Labels as 0 and 1."""
        return (self.name,), (self.task.labels.astype(np.float64),)

    def prepare(self, embed: Embed) -> Any:
        """Look up the embeddings once for all methods."""
        return _looked_up(embed, self.task.sentences())

    def measure(
        self, prepared: Any, transform: Transform | None, columns: Mapping[str, Any], flaw: str | None = None
    ) -> Measured:
        """Figures under one map."""
        try:
            scores = _unflawed(flaw, lambda: answer_scores(self.task, prepared, transform))
            figures = ranking_figures(self.task, scores)
        except NoFigureError as error:
            return Measured(_no_rows(self, METRICS, len(self.task), columns, str(error)), _nothing(self))
        values = {metric: getattr(figures, metric) for metric in METRICS}
        return Measured(_rows(self, values, figures.pairs, columns), (scores,))


def answer_scores(task: AnswerTask, embed: Embed, transform: Transform | None = None) -> NDArray[np.float64]:
    """Cosine of question and candidate of each pair, shape ``(N,)``."""
    questions, answers = (torch.as_tensor(embed(side)) for side in (task.questions, task.answers))
    if transform is not None:
        questions, answers = transform(questions), transform(answers)
    return cosine(questions[task.question_of], answers)


def _looked_up(embed: Embed, sentences: list[str]) -> Embed:
    """The embedding of these sentences in memory, so that each method does not look them up again."""
    texts = list(dict.fromkeys(sentences))
    row_of = {text: row for row, text in enumerate(texts)}
    embeddings = torch.as_tensor(embed(texts))

    def from_memory(wanted: Any) -> Tensor:
        return embeddings[[row_of[text] for text in wanted]]

    return from_memory


def _why(values: NDArray[np.float64], distances: NDArray[np.float64]) -> str:
    return no_spearman(values, distances) or ""


def _unflawed(flaw: str | None, compute: Callable[[], Result]) -> Result:
    if flaw is not None:
        raise NoFigureError(flaw)
    return compute()


def _nothing(job: Job) -> Kept:
    """What is kept of a method without figures."""
    return tuple(np.full(len(values), math.nan) for values in job.scored()[1])


def _rows(job: Job, values: Mapping[str, float], pairs: int, columns: Mapping[str, Any], reason: str = "") -> list[Row]:
    same: dict[str, Any] = {"task": job.name, "split": job.split, "aggregation": "all", "pairs": pairs}
    same |= dict.fromkeys(("spearman", "alignment", "uniformity", "mean_cosine"), math.nan)
    return [Row(**columns, **same, metric=metric, value=value, reason=reason) for metric, value in values.items()]


def _no_rows(job: Job, metrics: Sequence[str], pairs: int, columns: Mapping[str, Any], reason: str) -> list[Row]:
    return _rows(job, dict.fromkeys(metrics, math.nan), pairs, columns, reason)


def lexical_rows(
    pairs: ScoredPairs, distances: NDArray[np.float64], unit: str, columns_of: Mapping[str, Mapping[str, Any]]
) -> list[Row]:
    """Spearman with the edit distance: a row for the gold score, and one per method.

    Args:
        pairs: Gold scores, and similarities by setting.
        distances: From :func:`flowbert.tasks.lexical.edit_distances`.
        unit: Their unit, for the metric's name.
        columns_of: Setting -> columns of its rows.
    """
    gold = dict.fromkeys(("encoder", "layers", "pooling", "corpus"), "none") | {"method": GOLD, "code": code_digest()}
    by_distance = lexical_pairs(pairs, distances)
    same: dict[str, Any] = {"task": pairs.task, "split": pairs.split, "aggregation": "all", "pairs": len(pairs)}
    same |= dict.fromkeys(("spearman", "alignment", "uniformity", "mean_cosine"), math.nan)
    return [
        Row(
            **(columns_of.get(found.method, gold)),
            **same,
            metric=edit_distance_metric(unit),
            value=found.with_edit_distance,
            reason=_why(by_distance.concatenated(found.method), distances),
        )
        for found in lexical_figures(pairs, distances)
    ]

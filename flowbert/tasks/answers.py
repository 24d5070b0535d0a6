"""Answer ranking by cosine: area under the curve over all pairs, MAP and MRR over questions."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from flowbert.data.answers import AnswerTask, load_answers
from flowbert.data.corpus import Corpus, sentences_digest
from flowbert.errors import UserError
from flowbert.metrics.spearman import mid_ranks
from flowbert.tasks.base import Task
from flowbert.tasks.expected_ranks import expected_average_precision, expected_reciprocal_rank, runs_of_equal_scores
from flowbert.tasks.options import TaskOptions
from flowbert.tasks.protocol import Embed, Floats, Transform, cosine
from flowbert.tasks.resampling import Counts, unit_means


class AnswerRanking(Task, kind="answers"):
    """AUC, MAP and MRR of ranking candidates by their cosine with the question.

    AUC is over all pairs, also those of questions without an answer; MAP and MRR do not exist for these questions.
    Questions are resampled, with all their candidates: the candidates of one question are not independent. A resample
    without an answer, or without a candidate that is none, has no figure and is left out.

    Args:
        data: Questions and candidates, N pairs.

    Example:
        >>> labels, question = np.array([True, False] * 20), np.repeat(np.arange(20), 2)
        >>> task = AnswerRanking(AnswerTask("T", ("q",) * 20, ("a",) * 40, question, labels))
        >>> task.resample({"exact": labels * 1.0}, resamples=50)["auc", "all"].interval("exact").text()
        '100.0 [100.0, 100.0]'
    """

    measures = (("auc", "all"), ("map", "all"), ("mrr", "all"))
    headline = "auc"
    split = "test"

    def __init__(self, data: AnswerTask) -> None:
        self.data = data
        self.name = data.name
        self.item_shape = (len(data),)
        self.strata = (len(data.questions),)

    @classmethod
    def load(cls, source: str, options: TaskOptions) -> list[Self]:
        """Load from a file, or the hub."""
        return [cls(load_answers(source, options.vectors))]  # a file of answers has one split, and says the rest itself

    @cached_property
    def key(self) -> dict[str, Any]:
        """Identity as JSON values."""
        pairs = [str(self.data.question_of.tolist()), str(self.data.labels.tolist())]
        return {"kind": self.kind, "task": self.name, "pairs": sentences_digest([*self.sentences(), *pairs])}

    def sentences(self) -> list[str]:
        """Every distinct question, then every candidate."""
        return self.data.sentences()

    def pairs(self) -> tuple[Sequence[str], Sequence[str]]:
        """Question and candidate of each pair."""
        return [self.data.questions[number] for number in self.data.question_of], self.data.answers

    def corpus(self, name: str) -> Corpus:
        """Its own corpus ``target``."""
        if name != "target":
            raise UserError(f"corpus {name!r}: task {self.name} has no train split; allowed: target, nli, files")
        return Corpus.of(name, self.sentences())

    def prepare(self, embed: Embed) -> tuple[Tensor, Tensor]:
        """Look up the embeddings of questions and candidates, in one call."""
        embeddings = torch.as_tensor(embed(self.sentences()))
        count = len(self.data.questions)
        return embeddings[:count], embeddings[count:]

    def item_values(self, prepared: tuple[Tensor, Tensor], transform: Transform | None) -> Floats:
        """Cosine of question and candidate of each pair."""
        questions, answers = prepared if transform is None else map(transform, prepared)
        return cosine(questions[self.data.question_of], answers)

    def aggregate(self, items: Floats) -> list[float]:
        """AUC over the pairs, MAP and MRR over the questions; none if a score is not finite."""
        if not np.isfinite(items).all():
            return [np.nan] * len(self.measures)
        by_question = question_values(self.data, items)
        precision, rank = by_question[:, ~np.isnan(by_question[0])]
        return [area_under_curve(items, self.data.labels), float(np.mean(precision)), float(np.mean(rank))]

    def reason(self, items: Floats) -> str:
        """How many scores are not finite."""
        bad = int((~np.isfinite(items)).sum())
        return f"{bad} of {len(items)} scores are NaN or infinite; allowed: finite numbers"

    def estimator(self, items: Sequence[Floats]) -> Callable[[Counts], Floats]:
        """The same on resamples of the questions."""
        methods = [_resampled_ranking(self.data, each) if np.isfinite(each).all() else None for each in items]

        def figures(counts: Counts) -> Floats:
            nothing = np.full((len(self.measures), len(counts)), np.nan)
            return np.stack([nothing if method is None else method(counts) for method in methods], axis=1)

        return figures


def area_under_curve(scores: Floats, labels: NDArray[np.bool_]) -> float:
    r"""Area under the ROC curve :math:`(\sum_{i \in +} r_i - p (p + 1) / 2) / (p\, q)` by mid-ranks r, exact with ties.

    Equal to ``sklearn.metrics.roc_auc_score``.

    Args:
        scores: Finite values of shape ``(N,)``.
        labels: Which are positive, some of each, shape ``(N,)``.

    Example:
        >>> area_under_curve(np.array([0.1, 0.4, 0.4, 0.8]), np.array([False, False, True, True]))
        0.875
    """
    positives = int(labels.sum())
    ranks = mid_ranks(scores)
    return float((ranks[labels].sum() - positives * (positives + 1) / 2) / (positives * (len(labels) - positives)))


def question_values(task: AnswerTask, scores: Floats) -> Floats:
    """Average precision and reciprocal rank of each question: shape ``(2, Q)``, NaN for one without an answer.

    Equal scores count as in a random order (the exact expectation), so the order in the file plays no role; without
    equal ones the first is ``sklearn.metrics.average_precision_score``.

    References:
        Computing Information Retrieval Performance Measures Efficiently in the Presence of Tied Scores
        (McSherry, Najork, 2008). https://doi.org/10.1007/978-3-540-78646-7_38

    Args:
        task: Questions and candidates.
        scores: Finite values of shape ``(N,)``.
    """
    found = np.full((2, len(task.questions)), np.nan)
    order = np.argsort(task.question_of, kind="stable")
    starts = np.flatnonzero(np.diff(task.question_of[order], prepend=-1))
    for rows in np.split(order, starts[1:]):
        if task.labels[rows].any():
            runs = runs_of_equal_scores(scores[rows], task.labels[rows])
            found[:, task.question_of[rows[0]]] = expected_average_precision(runs), expected_reciprocal_rank(runs)
    return found


def _resampled_ranking(task: AnswerTask, scores: Floats) -> Callable[[Counts], Floats]:
    """One method's AUC, MAP and MRR on any resample of the questions: shape ``(3, R)``, NaN where one does not exist.

    The pairs are sorted once; multiplicities of the questions decide the rest.
    """
    order = np.argsort(scores, kind="stable")
    by_question = question_values(task, scores)
    question_of, labels = task.question_of[order], task.labels[order]
    starts = np.flatnonzero(np.diff(scores[order], prepend=-np.inf))

    def figures(counts: Counts) -> Floats:
        weights = counts[:, question_of].astype(np.float64)
        positive, negative = (np.add.reduceat(weights * chosen, starts, axis=1) for chosen in (labels, ~labels))
        below = np.cumsum(negative, axis=1) - negative / 2  # equal scores by half
        product = positive.sum(axis=1) * negative.sum(axis=1)
        product[product == 0] = np.nan
        areas = (positive * below).sum(axis=1) / product
        return np.concatenate([areas[None], unit_means(by_question, counts)])

    return figures

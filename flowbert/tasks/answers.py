"""Answer ranking: candidate answers ranked by their cosine with the question."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from torch import Tensor

from flowbert.arrays import Floats
from flowbert.data.answers import AnswerData
from flowbert.io import digest, sentences_digest
from flowbert.tasks.base import Metric, Scorer, Task, cosines
from flowbert.tasks.measures import Weights


class AnswerRanking(Task):
    """Area under the ROC curve over all pairs, MAP and MRR over the questions.

    Args:
        data: Questions and candidates.

    References:
        On the Sentence Embeddings from Pre-trained Language Models (Li et al., 2020), table 4.
        https://arxiv.org/abs/2011.05864
    """

    kind = "answers"
    metrics = (("auc", "all"), ("map", "all"), ("mrr", "all"))
    headline = "auc"
    split = "test"
    scored_with = ("question_of", "is_answer")

    def __init__(self, data: AnswerData) -> None:
        self.data = data
        self.name = data.name
        self.count = len(data.answers)
        self.strata = (len(data.questions),)
        self.question_of, self.is_answer = data.question_of, data.labels
        self.sentences = list(dict.fromkeys([*data.questions, *data.answers]))
        asked, answered = self.pairs()
        rows = pd.Index(self.sentences)
        self.left, self.right = rows.get_indexer(asked), rows.get_indexer(answered)
        texts = sentences_digest([*asked, *answered])
        self.digest = digest(self.kind, self.name, texts, data.labels.tolist())

    def items(self, vectors: Tensor) -> Floats:
        """Cosine of question and candidate of each pair."""
        return cosines(vectors[self.left], vectors[self.right])

    def pairs(self) -> tuple[Sequence[str], Sequence[str]]:
        """Question and candidate of each pair."""
        questions = [self.data.questions[index] for index in self.question_of]
        return questions, self.data.answers

    def texts(self) -> Mapping[str, Sequence[str]]:
        """Questions and candidates."""
        return {"test": [*self.data.questions, *self.data.answers]}

    def score(
        self, items: Floats, weights: Weights | None = None
    ) -> dict[Metric, float]:
        """AUC over the pairs, MAP and MRR over the questions that have an answer."""
        if weights is None:
            weights = np.ones(self.strata)
        values = self._scorer(items)(weights)
        return dict(zip(self.metrics, map(float, values), strict=True))

    def scorer(self, items: Sequence[Floats]) -> Scorer:
        """The same, sorting once for all resamples."""
        methods = [self._scorer(row) for row in items]
        return lambda weights: np.stack([each(weights) for each in methods], axis=1)

    def _scorer(self, items: Floats) -> Callable[[Weights], Floats]:
        """From weights of the questions ``(..., Q)`` to scores ``(3, ...)``."""
        if not np.isfinite(items).all():
            return lambda weights: np.full((3, *weights.shape[:-1]), np.nan)
        area = _ROCCurve(items, self.is_answer)
        by_question = self._by_question(items)
        answered = ~np.isnan(by_question[0])
        values = by_question[:, answered]

        def scores(weights: Weights) -> Floats:
            drawn = weights[..., answered].astype(np.float64)
            with np.errstate(invalid="ignore"):  # a resample may have no answer
                # Row by row: one product may round equal rows differently.
                means = [drawn @ row / drawn.sum(axis=-1) for row in values]
                return np.stack([area(weights[..., self.question_of]), *means])

        return scores

    def _by_question(self, items: Floats) -> Floats:
        """Average precision and reciprocal rank ``(2, Q)``; NaN for a question without answer."""
        # Of equal cosines, those of wrong candidates come first.
        order = np.lexsort((self.is_answer, -items, self.question_of))
        question, is_answer = self.question_of[order], self.is_answer[order]
        start = np.searchsorted(question, question)
        ranks = (np.arange(1, len(order) + 1) - start)[is_answer]
        found = np.cumsum(is_answer)
        found = (found - (found - is_answer)[start])[is_answer]
        answered, first, answers = np.unique(
            question[is_answer], return_index=True, return_counts=True
        )
        values = np.full((2, *self.strata), np.nan)
        values[0, answered] = np.add.reduceat(found / ranks, first) / answers
        values[1, answered] = 1 / ranks[first]
        return values


class _ROCCurve:
    """Area under the ROC curve: the share of pairs of a positive and a negative in right order.

    Equal scores count by half.

    Args:
        scores: Scores ``(N,)``, finite; higher ones for positives.
        positive: Whether each is a positive, ``(N,)``.
    """

    def __init__(self, scores: Floats, positive: NDArray[np.bool_]) -> None:
        self._order = np.argsort(scores, kind="stable")
        self._positive = positive[self._order]
        self._starts = np.flatnonzero(np.diff(scores[self._order], prepend=-np.inf))

    def __call__(self, weights: Weights) -> Floats:
        """The area for weights ``(..., N)``; NaN without positives or without negatives."""
        drawn = weights[..., self._order].astype(np.float64)
        positive = np.add.reduceat(drawn * self._positive, self._starts, axis=-1)
        negative = np.add.reduceat(drawn * ~self._positive, self._starts, axis=-1)
        below = np.cumsum(negative, axis=-1) - negative / 2
        pairs = positive.sum(axis=-1) * negative.sum(axis=-1)
        area: Floats = (positive * below).sum(axis=-1) / pairs
        return area

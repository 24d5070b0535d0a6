"""Answer ranking: candidate answers ranked by their cosine with the question."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from flowbert.arrays import Floats
from flowbert.data.answers import AnswerData
from flowbert.io import digest, sentences_digest
from flowbert.tasks.base import Metric, Task, cosines
from flowbert.tasks.bootstrap import Counts


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

    def __init__(self, data: AnswerData) -> None:
        self.data = data
        self.name = data.name
        self.count = len(data.answers)
        self.strata = (len(data.questions),)
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
        questions = [self.data.questions[number] for number in self.data.question_of]
        return questions, self.data.answers

    def texts(self) -> Mapping[str, Sequence[str]]:
        """Questions and candidates."""
        return {"test": [*self.data.questions, *self.data.answers]}

    def score(self, items: Floats) -> dict[Metric, float]:
        """AUC over the pairs, MAP and MRR over the questions that have an answer."""
        from sklearn.metrics import roc_auc_score

        if not np.isfinite(items).all():
            return dict.fromkeys(self.metrics, np.nan)
        auc = roc_auc_score(self.data.labels, items)
        figures = [auc, *np.nanmean(self._by_question(items), axis=1)]
        return dict(zip(self.metrics, map(float, figures), strict=True))

    def _by_question(self, items: Floats) -> Floats:
        """Average precision and reciprocal rank ``(2, Q)``; NaN for a question without answer."""
        from torchmetrics.functional.retrieval import (
            retrieval_average_precision,
            retrieval_reciprocal_rank,
        )

        values = np.full((2, self.strata[0]), np.nan)
        for question in range(self.strata[0]):
            rows = self.data.question_of == question
            labels = self.data.labels[rows]
            # torchmetrics takes an answer whose score is not above 0 for a wrong one: it gets
            # ranks, of right answers behind wrong ones with the same cosine.
            ranked = torch.from_numpy(labels[np.lexsort((~labels, items[rows]))])
            ranks = torch.arange(1.0, len(ranked) + 1)
            if labels.any():
                values[0, question] = retrieval_average_precision(ranks, ranked)
                values[1, question] = retrieval_reciprocal_rank(ranks, ranked)
        return values

    def estimator(self, items: Sequence[Floats]) -> Callable[[Counts], Floats]:
        """The same figures on resamples of the questions."""
        methods = [self._resampled(values) for values in items]
        return lambda counts: np.stack([each(counts) for each in methods], axis=1)

    def _resampled(self, items: Floats) -> Callable[[Counts], Floats]:
        by_question = self._by_question(items)
        answered = ~np.isnan(by_question[0])
        order = np.argsort(items, kind="stable")
        question_of, labels = self.data.question_of[order], self.data.labels[order]
        starts = np.flatnonzero(np.diff(items[order], prepend=-np.inf))

        def figures(counts: Counts) -> Floats:
            weights = counts[:, question_of].astype(np.float64)
            positive = np.add.reduceat(weights * labels, starts, axis=1)
            negative = np.add.reduceat(weights * ~labels, starts, axis=1)
            # Equal scores count by half.
            below = np.cumsum(negative, axis=1) - negative / 2
            drawn = counts[:, answered].astype(np.float64)
            with np.errstate(invalid="ignore"):  # a resample may have no answer
                auc = (positive * below).sum(axis=1)
                auc /= positive.sum(axis=1) * negative.sum(axis=1)
                # Row by row: one product may round equal rows differently.
                means = [
                    drawn @ values / drawn.sum(axis=1)
                    for values in by_question[:, answered]
                ]
            return np.stack([auc, *means])

        return figures

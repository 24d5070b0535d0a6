"""Linear probe: a linear classifier reads entailment labels off the embeddings of a pair."""

import warnings
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from flowbert.data.corpus import Corpus
from flowbert.data.entailment import EntailmentData
from flowbert.data.nli import LABELS, NLIData
from flowbert.io import digest, sentences_digest
from flowbert.tasks.base import Metric, Task, own_corpus
from flowbert.tasks.bootstrap import Counts, Floats

PENALTIES = tuple(10 ** (exponent / 2) for exponent in range(1, -6, -1))
"""L2 penalties beside the mean loss, of which the dev split chooses one."""

_ROUNDING = (
    1e-6  # of the size of the numbers: dimensions that vary less hold rounding alone
)


class Probe(Task):
    r"""Accuracy of softmax regression on :math:`(|u - v|, u \odot v)` of a pair's embeddings.

    Args:
        data: Labelled pairs with the splits train, dev and test.

    References:
        SentEval: An Evaluation Toolkit for Universal Sentence Representations (Conneau and
        Kiela, 2018). https://arxiv.org/abs/1803.05449
    """

    kind = "probe"
    metrics = (("accuracy", "all"),)
    headline = "accuracy"
    split = "test"

    def __init__(self, data: EntailmentData) -> None:
        self.data = data
        self.name = data.name
        texts = [text for split in data.splits for text in self._texts(split)]
        self.sentences = list(dict.fromkeys(texts))
        self._row = {sentence: row for row, sentence in enumerate(self.sentences)}
        self._classes = [name for name in LABELS if name in data.splits["train"].labels]
        tested = data.splits["test"].premises
        units = {
            premise: number for number, premise in enumerate(dict.fromkeys(tested))
        }
        self._unit_of = np.array([units[premise] for premise in tested])
        self.count = len(tested)
        self.strata = (len(units),)
        labels = [data.splits[split].labels for split in data.splits]
        self.digest = digest(self.kind, self.name, sentences_digest(texts), labels)

    def _texts(self, split: str) -> list[str]:
        data = self.data.splits[split]
        return [*data.premises, *data.hypotheses]

    def pairs(self) -> tuple[Sequence[str], Sequence[str]]:
        """First and second sentences of the test split."""
        return self.data.splits["test"].premises, self.data.splits["test"].hypotheses

    def corpus(self, name: str) -> Corpus:
        """The corpus ``target`` (sentences of all splits) or ``train_only``."""
        return own_corpus(
            self.name, name, {split: self._texts(split) for split in self.data.splits}
        )

    @property
    def references(self) -> Mapping[str, Floats]:
        """The most frequent label of the train split."""
        majority = np.bincount(self._labels("train")).argmax()
        return {"majority": (self._labels("test") == majority).astype(np.float64)}

    def items(self, vectors: Tensor) -> Floats:
        """Whether each test pair gets its label: 1 or 0."""
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression
        from sklearn.preprocessing import StandardScaler

        rows = vectors.detach().cpu().double()
        train_rows = rows[self._rows(self.data.splits["train"])]
        varies = (
            train_rows.std(dim=0, correction=0)
            > _ROUNDING * rows.square().mean().sqrt()
        )
        features = {
            split: self._features(rows[:, varies], data)
            for split, data in self.data.splits.items()
        }
        scaler = StandardScaler().fit(features["train"])
        train, dev, test = (
            scaler.transform(features[split]) for split in ("train", "dev", "test")
        )
        model = LogisticRegression(max_iter=1000, tol=1e-5, warm_start=True)
        best, predicted = -1.0, np.empty(0)
        for penalty in PENALTIES:
            model.set_params(C=1 / (penalty * len(train)))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                model.fit(train, self._labels("train"))
            accuracy = float((model.predict(dev) == self._labels("dev")).mean())
            if accuracy > best:
                best, predicted = accuracy, model.predict(test)
        correct: Floats = (predicted == self._labels("test")).astype(np.float64)
        return correct

    def _features(self, rows: Tensor, data: NLIData) -> Floats:
        first, second = torch.split(rows[self._rows(data)], len(data.premises))
        features: Floats = torch.cat(
            [(first - second).abs(), first * second], dim=1
        ).numpy()
        return features

    def _rows(self, data: NLIData) -> list[int]:
        return [self._row[text] for text in (*data.premises, *data.hypotheses)]

    def _labels(self, split: str) -> NDArray[np.int64]:
        """Index of each label among the classes of the train split; -1 for another one."""
        index = {name: number for number, name in enumerate(self._classes)}
        return np.array(
            [index.get(label, -1) for label in self.data.splits[split].labels]
        )

    def score(self, items: Floats) -> dict[Metric, float]:
        """Share of the test pairs that get their label."""
        return {self.metrics[0]: float(items.mean())}

    def estimator(self, items: Sequence[Floats]) -> Callable[[Counts], Floats]:
        """The accuracy on resamples of the first sentences with their pairs."""
        pairs = np.bincount(self._unit_of).astype(np.float64)
        correct = [np.bincount(self._unit_of, weights=values) for values in items]

        def estimate(counts: Counts) -> Floats:
            return np.stack(
                [(counts @ values) / (counts @ pairs) for values in correct]
            )[None]

        return estimate

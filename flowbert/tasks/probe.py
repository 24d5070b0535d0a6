"""Linear probe: how well a linear classifier reads entailment labels off the embeddings of a pair."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from flowbert.data.corpus import Corpus, sentences_digest
from flowbert.data.entailment import EntailmentTask, load_entailment
from flowbert.data.nli import LABELS, NLIData
from flowbert.errors import NoFigureError, UserError
from flowbert.metrics.arrays import to_rows, varies
from flowbert.tasks.base import Task
from flowbert.tasks.options import TaskOptions
from flowbert.tasks.protocol import Embed, Floats, Transform
from flowbert.tasks.resampling import Counts
from flowbert.tasks.softmax_regression import softmax_regressions

PENALTIES = tuple(10 ** (exponent / 2) for exponent in range(1, -6, -1))
"""Values of the L2 penalty on the weights, beside the mean loss, to choose from: 3.2, 1, 0.32, ... 0.0032."""


class Probe(Task, kind="probe"):
    r"""Accuracy of softmax regression on :math:`(|u - v|, u \odot v)` of the mapped embeddings of a pair.

    The classifier is fitted on the train split, with the penalty of :data:`PENALTIES` that has the highest accuracy on
    the dev split (of equal ones the strongest), and measured on the test split. Features are centred and divided by
    their standard deviation on the train split, so that a penalty means the same under every map; SentEval leaves them
    as they are. Dimensions that hold rounding alone, as dead ones of an encoder do, are no features. The labels reach
    the classifier alone, never the map. Beside the methods stands ``majority``: always the commonest label of the train
    split.

    The features depend on the axes, as cosines do not: ``zca`` and ``whitening`` differ by a rotation, so they have
    equal cosines and other accuracies.

    Test pairs with one first sentence are resampled together, as they are not independent; the classifier stays as it
    is, so an interval tells the test pairs' share of the error.

    References:
        SentEval: An Evaluation Toolkit for Universal Sentence Representations, SICK-E (Conneau, Kiela, 2018).
        https://arxiv.org/abs/1803.05449

    Args:
        data: Labelled pairs by split.

    Shapes:
        M: distinct sentences of all splits; N: test pairs; U: distinct first sentences of these; D: embedding size.

    Example:
        >>> task = Probe(load_entailment("SAMPLE"))
        >>> task.item_shape, task.strata, {name: f"{each.mean():.2f}" for name, each in task.references.items()}
        ((1200,), (399,), {'majority': '0.33'})
    """

    measures = (("accuracy", "all"),)
    headline = "accuracy"
    needs_text = True
    split = "test"

    def __init__(self, data: EntailmentTask) -> None:
        self.data = data
        self.name = data.name
        self.rows = {text: row for row, text in enumerate(dict.fromkeys(data.sentences()))}
        self.classes = [name for name in LABELS if name in data.splits["train"].labels]
        tested = data.splits["test"].premises
        units = {premise: number for number, premise in enumerate(dict.fromkeys(tested))}
        self.unit_of = np.array([units[premise] for premise in tested], dtype=np.int64)
        self.item_shape = (len(tested),)
        self.strata = (len(units),)

    @classmethod
    def load(cls, source: str, options: TaskOptions) -> list[Self]:
        """Load by task name or file of NLI pairs.

        Raises:
            UserError: If these cannot be read, or the test split is not asked for.
        """
        if "test" not in options.splits:
            raise UserError(
                f"split: received {', '.join(options.splits)}; allowed for a probe: test (dev chooses its penalty)"
            )
        return [cls(load_entailment(source, options.senteval))]

    @cached_property
    def key(self) -> dict[str, Any]:
        """Identity as JSON values."""
        labels = [f"{split} {' '.join(data.labels)}" for split, data in self.data.splits.items()]
        digest = sentences_digest([*self.sentences(), *labels])
        return {"kind": self.kind, "task": self.name, "split": self.split, "pairs": digest}

    def sentences(self) -> list[str]:
        """Every occurrence of every sentence of all splits."""
        return self.data.sentences()

    def pairs(self) -> tuple[Sequence[str], Sequence[str]]:
        """First and second sentences of the test split."""
        tested = self.data.splits["test"]
        return tested.premises, tested.hypotheses

    def corpus(self, name: str) -> Corpus:
        """Its own corpus ``target`` (all splits) or ``train_only``; SICKR's are those of the STS task."""
        return Corpus.of(name, self.sentences() if name == "target" else self.data.sentences(["train"]))

    @cached_property
    def references(self) -> Mapping[str, Floats]:
        """The commonest label of the train split."""
        numbers = self._classes("train")
        return {"majority": np.asarray(self._classes("test") == np.bincount(numbers).argmax(), dtype=np.float64)}

    def prepare(self, embed: Embed) -> Tensor:
        """Look up the embedding of each distinct sentence, in one call: shape ``(M, D)``."""
        return torch.as_tensor(embed(list(self.rows)))

    def item_values(self, prepared: Tensor, transform: Transform | None) -> Floats:
        """Whether each test pair gets its label: 1 or 0."""
        mapped = to_rows(prepared if transform is None else transform(prepared)).cpu()
        bad = int((~mapped.isfinite().all(dim=1)).sum())
        if bad:
            raise NoFigureError(f"{bad} of {len(mapped)} embeddings are NaN or infinite; allowed: finite numbers")
        rows = (mapped * varies(mapped[self._rows(self.data.splits["train"])])).numpy()
        features = {split: self._features(rows, data) for split, data in self.data.splits.items()}
        train, dev, test = standardized(features["train"], features["dev"], features["test"])
        found = list(softmax_regressions(train, self._classes("train"), PENALTIES))
        right = [(each.predict(dev) == self._classes("dev")).mean() for each in found]
        best = found[int(np.argmax(right))]  # the first, so the strongest, of equal ones
        return np.asarray(best.predict(test) == self._classes("test"), dtype=np.float64)

    def aggregate(self, items: Floats) -> list[float]:
        """Share of the test pairs that get their label."""
        return [float(items.mean())]

    def estimator(self, items: Sequence[Floats]) -> Callable[[Counts], Floats]:
        """The same over the pairs of the first sentences drawn."""
        pairs = np.bincount(self.unit_of).astype(np.float64)
        right = [np.bincount(self.unit_of, weights=each) for each in items]
        return lambda counts: np.stack([(counts @ each) / (counts @ pairs) for each in right])[None]

    def _features(self, mapped: Floats, data: NLIData) -> Floats:
        first, second = np.split(mapped[self._rows(data)], 2)
        return pair_features(first, second)

    def _rows(self, data: NLIData) -> list[int]:
        """Rows of all first sentences, then of all second ones."""
        return [self.rows[text] for text in (*data.premises, *data.hypotheses)]

    def _classes(self, split: str) -> NDArray[np.int64]:
        """Number of each pair's label among those of the train split; -1 for one that is not there."""
        labels = self.data.splits[split].labels
        return np.array([self.classes.index(name) if name in self.classes else -1 for name in labels], dtype=np.int64)


def pair_features(first: Floats, second: Floats) -> Floats:
    r"""Features :math:`(|u - v|, u \odot v)` of pairs: from two arrays ``(N, D)`` to ``(N, 2 D)``.

    Example:
        >>> pair_features(np.array([[1.0, 2.0]]), np.array([[3.0, -1.0]]))
        array([[ 2.,  3.,  3., -2.]])
    """
    return np.hstack([np.abs(first - second), first * second])


def standardized(train: Floats, *others: Floats) -> list[Floats]:
    """Centre columns and divide them by their standard deviation, both of the first array; constant ones become 0.

    Args:
        train: Shape ``(N, F)``.
        others: Arrays of F columns, treated alike.
    """
    mean, deviation = train.mean(axis=0), train.std(axis=0)
    # What is left of a constant column is rounding, which must not be blown up into a feature.
    constant = deviation <= len(train) * np.finfo(np.float64).eps * np.abs(mean)
    factor = np.where(constant, 0.0, 1 / np.where(constant, 1.0, deviation))
    return [(each - mean) * factor for each in (train, *others)]

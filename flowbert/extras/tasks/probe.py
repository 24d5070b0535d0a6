"""Linear probe: a linear classifier of entailment, and its data."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from flowbert.arrays import Floats
from flowbert.data.nli import LABELS, NLIData, labelled_pairs, load_nli
from flowbert.data.sample import BUILTIN
from flowbert.data.scored_pairs import SAMPLE_TASK, read_sick
from flowbert.data.tables import is_table
from flowbert.data.text_files import table_name, user_path
from flowbert.errors import UserError, choices
from flowbert.io import digest, sentences_digest
from flowbert.seeding import Stream
from flowbert.tasks.base import TASKS, ScoreName, Scorer, Task
from flowbert.tasks.measures import Counts


@dataclass(frozen=True, eq=False)
class EntailmentData:
    """Labelled pairs of the splits ``train`` (at least two labels), ``dev`` and ``test``."""

    name: str
    splits: dict[str, NLIData]


def load_entailment(source: str, senteval: str | Path | None = None) -> EntailmentData:
    """Load labelled pairs with their splits.

    SICK is published with splits. NLI pairs are split by premise: ``dev`` and ``test`` get a tenth
    of the premises each, drawn with seed 0 from the sorted premises. So no premise is in two
    splits, and the order of the file does not matter.

    Args:
        source: ``SICKR``, ``SAMPLE`` (the built-in NLI pairs), or a file of NLI pairs, as in
            :func:`flowbert.data.nli.load_nli`.
        senteval: Folder in the layout of SentEval's ``data/downstream``, for SICKR.

    Raises:
        UserError: If the source is unknown or damaged, or has too few premises or labels.

    Example:
        >>> data = load_entailment("SAMPLE")
        >>> {split: len(pairs) for split, pairs in data.splits.items()}
        {'train': 9600, 'dev': 1200, 'test': 1200}
    """
    if source == "SICKR":
        if senteval is None:
            raise UserError(
                "received nothing; expected a SentEval folder for SICKR",
                argument="senteval",
            )
        parts = read_sick(user_path(senteval), source, "entailment_judgment")
        splits = {split: labelled_pairs([rows]) for split, _, rows in parts}
    elif source == SAMPLE_TASK or is_table(source):
        splits = _split_by_premise(
            load_nli(BUILTIN if source == SAMPLE_TASK else source), source
        )
    else:
        allowed = choices(["SICKR", SAMPLE_TASK], source.upper())
        raise UserError(
            f"received {source!r} for entailment; expected {allowed}, or a file",
            argument="tasks",
        )
    return EntailmentData(table_name(source), splits)


def _split_by_premise(data: NLIData, source: str) -> dict[str, NLIData]:
    premises = sorted(set(data.premises))
    if len(premises) < 10:
        raise UserError(
            f"{source}: received {len(premises)} premises; expected 10 or more"
        )
    held_out = round(0.1 * len(premises))
    order = Stream(0, "split", of="premises").rng().permutation(len(premises))
    splits = ["test"] * held_out + ["dev"] * held_out + ["train"] * len(premises)
    split_of = pd.Series(splits[: len(premises)], [premises[index] for index in order])
    pairs = pd.DataFrame(vars(data))
    groups = pairs.groupby(pairs["premises"].map(split_of))
    return {
        split: NLIData(*map(tuple, groups.get_group(split).to_numpy().T))
        for split in ("train", "dev", "test")
    }


PENALTIES = tuple(10 ** (exponent / 2) for exponent in range(1, -6, -1))
"""L2 penalties added to the mean loss; selected on the dev split."""


ROUNDING = 1e-6
"""Standard deviation, relative to the vectors' size, below which a dimension is only rounding: an
unused dimension of an encoder has 2e-8, a used one 7e-4 or more."""


def _varying(rows: Tensor) -> Tensor:
    """Whether each dimension of vectors ``(N, D)`` varies by more than rounding: ``(D,)``."""
    deviations = rows.std(dim=0, correction=0)
    size = rows.square().mean().sqrt()
    return deviations > ROUNDING * size


@TASKS.register("probe")
class Probe(Task):
    r"""Accuracy of softmax regression on :math:`(|u - v|, u \odot v)` of a pair's embeddings.

    Args:
        data: Labelled pairs with the splits train, dev and test.

    References:
        SentEval: An Evaluation Toolkit for Universal Sentence Representations (Conneau and
        Kiela, 2018). https://arxiv.org/abs/1803.05449
    """

    options = ("senteval",)
    metrics = (("accuracy", "all"),)
    headline = "accuracy"
    split = "test"
    scored_with = ("unit_of",)

    def __init__(self, data: EntailmentData) -> None:
        self.data = data
        self.name = data.name
        self.sentences = list(dict.fromkeys(chain.from_iterable(self.texts().values())))
        self._index = pd.Index(self.sentences)
        trained = data.splits["train"].labels
        self._classes = pd.Index([name for name in LABELS if name in trained])
        # Pairs of one first sentence are resampled together.
        self.unit_of, premises = pd.factorize(pd.Index(data.splits["test"].premises))
        self.count = len(self.unit_of)
        self.strata = (len(premises),)

    @classmethod
    def load(cls, source: str, **options: Any) -> list[Self]:
        """The task of a source, see :func:`flowbert.extras.tasks.probe.load_entailment`."""
        return [cls(load_entailment(source, **options))]

    @cached_property
    def digest(self) -> str:
        """Digest, which includes the splits that the probe is trained on."""
        texts = [sentences_digest(split) for split in self.texts().values()]
        labels = [split.labels for split in self.data.splits.values()]
        return digest(self.kind, self.name, texts, labels)

    def texts(self) -> Mapping[str, Sequence[str]]:
        """First and second sentences by split."""
        splits = self.data.splits.items()
        return {split: [*data.premises, *data.hypotheses] for split, data in splits}

    def pairs(self) -> tuple[Sequence[str], Sequence[str]]:
        """First and second sentences of the test split."""
        return self.data.splits["test"].premises, self.data.splits["test"].hypotheses

    @property
    def references(self) -> Mapping[str, Floats]:
        """The most frequent label of the train split."""
        majority = np.bincount(self._labels("train")).argmax()
        return {"majority": (self._labels("test") == majority).astype(np.float64)}

    def items(self, vectors: Tensor) -> Floats:
        """Whether the predicted label of each test pair is right: 1 or 0."""
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression
        from sklearn.preprocessing import StandardScaler

        rows = vectors.detach().cpu().double()
        places = {
            split: self._index.get_indexer(texts)
            for split, texts in self.texts().items()
        }
        rows = rows[:, _varying(rows[places["train"]])]
        features = {}
        for split, place in places.items():
            first, second = rows[place].chunk(2)
            parts = (first - second).abs(), first * second
            features[split] = torch.cat(parts, dim=1).numpy()
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

    def _labels(self, split: str) -> NDArray[np.int64]:
        """Index of each label among the classes of the train split; -1 for other labels."""
        names = self.data.splits[split].labels
        labels: NDArray[np.int64] = self._classes.get_indexer(names)
        return labels

    def score(self, items: Floats) -> dict[ScoreName, float]:
        """Share of the test pairs with the right label."""
        return {self.metrics[0]: float(items.mean())}

    def scorer(self, items: Sequence[Floats]) -> Scorer:
        """The same on resamples of the first sentences."""

        def scores(weights: Counts) -> Floats:
            pairs = weights[:, self.unit_of].astype(np.float64)
            shares = [np.vecdot(pairs, row) / pairs.sum(axis=1) for row in items]
            return np.stack(shares)[None]

        return scores

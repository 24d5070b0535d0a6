"""Sentence pairs with gold scores: semantic textual similarity."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from flowbert.arrays import Floats
from flowbert.data.sts import STSData, Subset
from flowbert.errors import UserError
from flowbert.io import digest, sentences_digest
from flowbert.numbers import is_count, is_number
from flowbert.tasks.base import Metric, Scorer, Task, cosines
from flowbert.tasks.bootstrap import Counts, ResampledSpearman
from flowbert.tasks.measures import (
    AGGREGATIONS,
    Weights,
    alignment,
    mean_cosine,
    spearman,
    sts_spearman,
    undefined_reason,
    uniformity,
)

POSITIVE_ABOVE = 0.8
"""Share of the score range above which a pair is a positive of the alignment: 4 of 0 to 5."""


class PairTask(Task):
    """One split of sentence pairs with gold scores.

    Args:
        data: The data set.
        split: Split to measure.

    Raises:
        UserError: If the data set has no such split.
    """

    def __init__(self, data: STSData, split: str = "test") -> None:
        self.data = data
        self.name = data.name
        self.split = split
        self.subsets = data.split(split)
        self.strata = tuple(len(subset) for subset in self.subsets)
        self.count = sum(self.strata)
        self.sentences = list(dict.fromkeys(data.sentences([split])))
        first, second = self.pairs()
        rows = pd.Index(self.sentences)
        self.left, self.right = rows.get_indexer(first), rows.get_indexer(second)
        self.subset_names = tuple(subset.name for subset in self.subsets)
        self.gold = np.concatenate([subset.scores for subset in self.subsets])
        texts = sentences_digest([*first, *second])
        subsets = [[subset.name, len(subset)] for subset in self.subsets]
        self.digest = digest(
            self.kind, self.name, split, texts, self.gold.tolist(), subsets
        )

    def items(self, vectors: Tensor) -> Floats:
        """Cosine of each pair."""
        return cosines(vectors[self.left], vectors[self.right])

    def pairs(self) -> tuple[Sequence[str], Sequence[str]]:
        """First and second sentences."""
        first = [text for subset in self.subsets for text in subset.sentences1]
        second = [text for subset in self.subsets for text in subset.sentences2]
        return first, second

    def labels(self) -> Sequence[Subset]:
        """The train split, unless it is measured."""
        return self.data.splits.get("train", ()) if self.split != "train" else ()

    def texts(self) -> Mapping[str, Sequence[str]]:
        """First and second sentences of each split."""
        return {split: self.data.sentences([split]) for split in self.data.splits}


class STS(PairTask):
    """Spearman of cosine and gold score under three aggregations, alignment and uniformity.

    Over the subsets of a year, ``all`` is one correlation of all pairs, ``mean`` the plain and
    ``wmean`` the size-weighted average of the subsets' correlations.

    Args:
        data: The data set.
        split: Split to measure.
        positive_above: Share of the data set's score range, in [0, 1), above which a pair is a
            positive of the alignment.
        uniformity_limit: Largest number of sentences for the uniformity, at least 2; None for all.

    Raises:
        UserError: If an argument is wrong.
    """

    kind = "sts"
    metrics = tuple(("spearman", name) for name in AGGREGATIONS)
    headline = "spearman"
    averaged = True
    scored_with = ("gold", "subset_names")

    def __init__(
        self,
        data: STSData,
        split: str = "test",
        positive_above: float = POSITIVE_ABOVE,
        uniformity_limit: int | None = None,
    ) -> None:
        super().__init__(data, split)
        check_measures(positive_above, uniformity_limit)
        low, high = data.score_range
        self.positive_above = low + positive_above * (high - low)
        self.uniformity_limit = uniformity_limit
        self.digest = digest(self.digest, self.positive_above, uniformity_limit)

    def settings(self) -> dict[str, Any]:
        """What was measured, in words."""
        return super().settings() | {
            "score_range": list(self.data.score_range),
            "positive_above": self.positive_above,
            "uniformity_limit": self.uniformity_limit,
        }

    def _split(self, values: NDArray[Any]) -> list[NDArray[Any]]:
        """Values of the pairs of each subset."""
        ends = np.cumsum(self.strata)
        return np.split(values, ends[:-1], axis=-1)

    def _by_subset(self, *values: NDArray[Any]) -> Iterator[tuple[NDArray[Any], ...]]:
        """Values and gold scores of the pairs of each subset."""
        return zip(*map(self._split, (*values, self.gold)), strict=True)

    def score(
        self, items: Floats, weights: Weights | None = None
    ) -> dict[Metric, float]:
        """Spearman under each aggregation."""
        subset_of = np.repeat(np.arange(len(self.strata)), self.strata)
        scores = sts_spearman(items, self.gold, subset_of, weights)
        return {("spearman", name): score for name, score in scores.items()}

    def extras(self, vectors: Tensor, items: Floats) -> dict[Metric, float]:
        """Alignment, uniformity, mean cosine, and the correlation of each subset."""
        positive = self.gold > self.positive_above
        figures = {
            "alignment": alignment(
                vectors[self.left[positive]], vectors[self.right[positive]]
            ),
            "uniformity": uniformity(
                vectors, limit=self.uniformity_limit, dtype=torch.float32
            ),
            "mean_cosine": mean_cosine(vectors),
        }
        extras = {(name, "all"): value for name, value in figures.items()}
        if len(self.subset_names) > 1:
            for name, part in zip(
                self.subset_names, self._by_subset(items), strict=True
            ):
                extras["spearman", name] = spearman(*part)
        return extras

    def reason(self, items: Floats, metric: Metric) -> str:
        """Of a correlation the first subset without one, and why; of others what is lacking."""
        name, aggregation = metric
        if name == "alignment" and not (self.gold > self.positive_above).any():
            return f"no pair has a score above {self.positive_above:g}"
        if name != "spearman":
            return "fewer than two sentences, or a vector without direction"
        if aggregation == "all":
            return undefined_reason(items, self.gold)
        for subset, part in zip(self.subset_names, self._by_subset(items), strict=True):
            problem = undefined_reason(*part)
            if problem and aggregation in (subset, *AGGREGATIONS):
                return f"{subset}: {problem}"
        return ""

    def scorer(self, items: Sequence[Floats]) -> Scorer:
        """The correlations without sorting again for each resample."""
        whole = ResampledSpearman(items, self.gold)
        if len(self.strata) == 1:
            return lambda weights: np.stack([whole(weights)] * len(self.metrics))
        subsets = [
            ResampledSpearman(list(part), gold)
            for part, gold in self._by_subset(np.stack(items))
        ]
        shares = np.divide(self.strata, self.count)[:, None, None]

        def scores(weights: Counts) -> Floats:
            drawn = zip(subsets, self._split(weights), strict=True)
            values = np.array([subset(part) for subset, part in drawn])
            # Without BLAS, whose rounding depends on a method's place among the others.
            weighted = (shares * values).sum(axis=0)
            return np.stack([whole(weights), values.mean(axis=0), weighted])

        return scores


def check_measures(positive_above: Any, uniformity_limit: Any) -> None:
    """Raise a UserError for options of :class:`STS` that are not allowed."""
    if not is_number(positive_above, 0, 1) or positive_above == 1:
        raise UserError(
            argument="positive_above",
            received=positive_above,
            expected=(
                "a share of the score range, "
                "at least 0 and below 1 (0.8 of 0 to 5 is 4)"
            ),
        )
    limit = uniformity_limit
    if limit is not None and not is_count(limit, 2, np.inf):
        raise UserError(
            argument="uniformity_limit",
            received=limit,
            expected="a whole number of at least 2",
        )

"""Tasks of sentence pairs: semantic textual similarity and lexical similarity."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
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
from flowbert.tasks.base import Metric, Task, cosines
from flowbert.tasks.bootstrap import Counts, ResampledSpearman
from flowbert.tasks.measures import (
    alignment,
    mean_cosine,
    no_spearman,
    spearman,
    uniformity,
)

AGGREGATIONS = ("all", "mean", "wmean")
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

    def _by_subset(self, items: Floats) -> Iterator[tuple[Floats, Floats]]:
        """Items and gold scores of each subset."""
        return zip(self._split(items), self._split(self.gold), strict=True)

    def score(self, items: Floats) -> dict[Metric, float]:
        """Spearman under each aggregation."""
        subsets = [spearman(*subset) for subset in self._by_subset(items)]
        figures = (
            spearman(items, self.gold),
            float(np.mean(subsets)),
            float(np.average(subsets, weights=self.strata)),
        )
        return dict(zip(self.metrics, figures, strict=True))

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
        if len(self.subsets) > 1:
            for subset, part in zip(self.subsets, self._by_subset(items), strict=True):
                extras["spearman", subset.name] = spearman(*part)
        return extras

    def reason(self, items: Floats, metric: Metric) -> str:
        """Of a correlation the first subset without one, and why; of others what is lacking."""
        name, aggregation = metric
        if name == "alignment" and not (self.gold > self.positive_above).any():
            return f"no pair has a score above {self.positive_above:g}"
        if name != "spearman":
            return "fewer than two sentences, or a vector without direction"
        if aggregation == "all":
            return no_spearman(items, self.gold)
        for subset, part in zip(self.subsets, self._by_subset(items), strict=True):
            problem = no_spearman(*part)
            if problem and aggregation in (subset.name, *AGGREGATIONS):
                return f"{subset.name}: {problem}"
        return ""

    def estimator(self, items: Sequence[Floats]) -> Callable[[Counts], Floats]:
        """Correlations on resamples of each subset's pairs."""
        whole = ResampledSpearman(items, self.gold)
        if len(self.subsets) == 1:
            return lambda counts: np.repeat(
                whole(counts)[None], len(AGGREGATIONS), axis=0
            )
        parts = zip(*map(self._split, items), strict=True)
        subsets = [
            ResampledSpearman(part, gold)
            for part, gold in zip(parts, self._split(self.gold), strict=True)
        ]
        weights = np.divide(self.strata, self.count)

        def estimate(counts: Counts) -> Floats:
            drawn = zip(subsets, self._split(counts), strict=True)
            figures = np.array([subset(part) for subset, part in drawn])
            # Without BLAS, whose rounding depends on a method's place among the others.
            weighted = (weights[:, None, None] * figures).sum(axis=0)
            return np.stack([whole(counts), figures.mean(axis=0), weighted])

        return estimate


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


class Lexical(PairTask):
    """Spearman of cosine and edit distance; nearer to -1: similarity follows the wording.

    Args:
        data: The data set.
        split: Split to measure.
        unit: Unit of the Levenshtein distance, ``words`` or ``characters``.

    References:
        On the Sentence Embeddings from Pre-trained Language Models (Li et al., 2020), table 6.
        https://arxiv.org/abs/2011.05864
    """

    kind = "lexical"

    def __init__(self, data: STSData, split: str = "test", unit: str = "words") -> None:
        super().__init__(data, split)
        self.unit = unit
        self.metrics = ((f"edit_distance_{unit}", "all"),)
        self.digest = digest(self.digest, unit)

    def settings(self) -> dict[str, Any]:
        """What was measured, in words."""
        return super().settings() | {"unit": self.unit}

    @cached_property
    def distances(self) -> Floats:
        """Levenshtein distance of each pair, ``(K,)``."""
        from rapidfuzz.distance import Levenshtein

        split = str.split if self.unit == "words" else str
        pairs = zip(*self.pairs(), strict=True)
        distances = [
            Levenshtein.distance(split(first), split(second)) for first, second in pairs
        ]
        return np.array(distances, dtype=np.float64)

    @property
    def references(self) -> Mapping[str, Floats]:
        """The gold score."""
        return {"gold": self.gold}

    def score(self, items: Floats) -> dict[Metric, float]:
        """Correlation with the distance."""
        return {self.metrics[0]: spearman(items, self.distances)}

    def reason(self, items: Floats, metric: Metric) -> str:
        """Why there is no correlation."""
        return no_spearman(items, self.distances)

    def estimator(self, items: Sequence[Floats]) -> Callable[[Counts], Floats]:
        """The correlation on resamples of each subset's pairs."""
        resampled = ResampledSpearman(items, self.distances)
        return lambda counts: resampled(counts)[None]

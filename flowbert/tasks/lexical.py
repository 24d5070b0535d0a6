"""Lexical similarity: correlation of cosines with edit distances."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from flowbert.arrays import Floats
from flowbert.tasks.base import TASKS, Metric, Scorer
from flowbert.tasks.measures import (
    ResampledSpearman,
    Weights,
    spearman,
    undefined_reason,
)
from flowbert.tasks.sts import ScoredPairTask


@TASKS.register("lexical")
class Lexical(ScoredPairTask):
    """Spearman of cosine and edit distance; nearer to -1: similarity follows the wording.

    The Levenshtein distance is counted in words.

    Args:
        data: The data set.
        split: Split to measure.

    References:
        On the Sentence Embeddings from Pre-trained Language Models (Li et al., 2020), table 6.
        https://arxiv.org/abs/2011.05864
    """

    metrics = (("edit_distance_words", "all"),)
    scored_with = ("distances",)
    unit: ClassVar[str] = "words"
    _units: ClassVar[Callable[[str], Sequence[str]]] = str.split

    def settings(self) -> dict[str, Any]:
        """The settings of the measurement in words."""
        return super().settings() | {"unit": self.unit}

    @cached_property
    def distances(self) -> Floats:
        """Levenshtein distance of each pair, ``(K,)``."""
        from rapidfuzz.distance import Levenshtein

        units = type(self)._units
        distances = [
            Levenshtein.distance(units(first), units(second))
            for first, second in zip(*self.pairs(), strict=True)
        ]
        return np.array(distances, dtype=np.float64)

    @property
    def references(self) -> Mapping[str, Floats]:
        """The gold score."""
        return {"gold": self.gold}

    def score(
        self, items: Floats, weights: Weights | None = None
    ) -> dict[Metric, float]:
        """Correlation with the distance."""
        return {self.metrics[0]: spearman(items, self.distances, weights)}

    def reason(self, items: Floats, metric: Metric) -> str:
        """Why the correlation is undefined."""
        return undefined_reason(items, self.distances)

    def scorer(self, items: Sequence[Floats]) -> Scorer:
        """The correlation without sorting again for each resample."""
        resampled = ResampledSpearman(items, self.distances)
        return lambda weights: resampled(weights)[None]


@TASKS.register("lexical-characters")
class LexicalCharacters(Lexical):
    """:class:`Lexical` with the Levenshtein distance counted in characters."""

    metrics = (("edit_distance_characters", "all"),)
    unit = "characters"
    _units = str

"""Correlation of cosines with edit distances, which measures the influence of wording."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from torch import Tensor

from flowbert.arrays import Floats
from flowbert.tasks.base import TASKS, ScoreName
from flowbert.tasks.sts import SimilarityTask


@TASKS.register("lexical")
class Lexical(SimilarityTask):
    """Spearman of cosine and edit distance; near -1, similarity follows the wording.

    The Levenshtein distance is counted in words.

    Args:
        data: The data set.
        split: Split to measure.

    References:
        On the Sentence Embeddings from Pre-trained Language Models (Li et al., 2020), table 6.
        https://arxiv.org/abs/2011.05864
    """

    metrics = (("edit_distance_words", "all"),)
    headline = None
    scored_with = ("distances",)
    unit: ClassVar[str] = "words"
    _units: ClassVar[Callable[[str], Sequence[str]]] = str.split

    def settings(self) -> dict[str, Any]:
        """The settings of the measurement in words."""
        return super().settings() | {"unit": self.unit}

    @property
    def target(self) -> Floats:
        """The :attr:`distances`."""
        return self.distances

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

    def extras(self, vectors: Tensor, items: Floats) -> dict[ScoreName, float]:
        """No other scores."""
        return {}


@TASKS.register("lexical-characters")
class LexicalCharacters(Lexical):
    """:class:`Lexical` with the Levenshtein distance counted in characters."""

    metrics = (("edit_distance_characters", "all"),)
    unit = "characters"
    _units = str

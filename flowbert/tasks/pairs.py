"""Sentence pairs in memory as a task."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from flowbert.data.sts import PAIR_COLUMNS, STSData, Subset
from flowbert.errors import UserError


@dataclass(frozen=True, eq=False)
class Pairs:
    """Scored sentence pairs in memory, in place of a file of pairs.

    Args:
        sentences1: First sentences, N of them.
        sentences2: Second sentences, N of them.
        scores: Gold scores, N finite numbers of which two differ.
        name: Name in tables.
        score_range: Lowest and highest score that there may be; None as in
            :attr:`flowbert.data.sts.STSData.score_range`.

    Example:
        >>> pairs = Pairs(["a dog", "a cat"], ["the dog", "a car"], [1, 0])
        >>> pairs.data().score_range
        (0.0, 1.0)
    """

    sentences1: Sequence[str]
    sentences2: Sequence[str]
    scores: Any
    name: str = "pairs"
    score_range: tuple[float, float] | None = None

    @classmethod
    def of(cls, frame: pd.DataFrame) -> "Pairs":
        """The pairs of a data frame with columns sentence1, sentence2 and score.

        Raises:
            UserError: If it lacks one, or has two of a name.
        """
        names = list(frame.columns)
        if any(names.count(name) != 1 for name in PAIR_COLUMNS):
            raise UserError(
                f"received a data frame with the columns {', '.join(map(str, names))}; "
                f"expected {', '.join(PAIR_COLUMNS)} once each",
                argument="tasks",
            )
        return cls(*(frame[name].tolist() for name in PAIR_COLUMNS))

    def data(self) -> STSData:
        """The pairs as a data set with the split ``test``.

        White space inside a sentence becomes single spaces, as in files.

        Raises:
            UserError: If lengths differ, a sentence is blank or no text, or the scores are no
                finite numbers of the range or all equal.
        """
        sides = [self._sentences("sentences1"), self._sentences("sentences2")]
        try:
            scores = np.asarray(self.scores, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise self._error("scores", self.scores, "finite numbers") from error
        sizes = [len(sides[0]), len(sides[1]), *scores.shape]
        if len(sizes) != 3 or len(set(sizes)) > 1:
            raise self._error(
                "sizes", sizes, "as many first and second sentences as scores"
            )
        low, high = self.score_range or (-math.inf, math.inf)
        for number, score in enumerate(scores.tolist(), start=1):
            if not (math.isfinite(score) and low <= score <= high):
                allowed = f"a finite number from {low:g} to {high:g}"
                raise self._error(f"score {number}", score, allowed)
        if len(np.unique(scores)) < 2:
            raise self._error(
                "scores", f"{len(scores)} pairs", "two or more different scores"
            )
        subset = Subset(self.name, sides[0], sides[1], scores)
        return STSData(self.name, {"test": [subset]}, self.score_range)

    def _sentences(self, side: str) -> tuple[str, ...]:
        given = getattr(self, side)
        if isinstance(given, str):
            raise self._error(side, given, "a list of sentences")
        for number, text in enumerate(given, start=1):
            if not isinstance(text, str) or not text.strip():
                raise self._error(f"{side} {number}", text, "a sentence")
        return tuple(" ".join(text.split()) for text in given)

    def _error(self, what: str, received: Any, expected: str) -> UserError:
        return UserError(
            f"{self.name}: {what}: received {received!r}; expected {expected}",
            argument="tasks",
        )

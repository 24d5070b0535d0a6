"""Sentence pairs in memory as a task."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from flowbert.data.sts import PAIR_COLUMNS, STSData, make_subset
from flowbert.data.tables import rows_of
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
            UserError: If a column is missing or occurs twice.
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
            UserError: If lengths differ, a sentence is blank or not text, a score is not a finite
                number of the range, or all scores are equal.
        """
        try:
            scores = np.asarray(self.scores, dtype=np.float64).tolist()
        except (TypeError, ValueError) as error:
            raise UserError(
                f"{self.name}: scores: received {self.scores!r}; expected finite numbers",
                argument="tasks",
            ) from error
        columns = self.sentences1, self.sentences2, scores
        sizes = list(map(len, columns))
        if len(set(sizes)) > 1:
            raise UserError(
                f"{self.name}: received {sizes} sentences, sentences and scores; expected "
                "equal numbers",
                argument="tasks",
            )
        pairs = zip(*columns, strict=True)
        records = [dict(zip(PAIR_COLUMNS, pair, strict=True)) for pair in pairs]
        rows = rows_of(Path(self.name), records, [PAIR_COLUMNS])
        low, high = self.score_range or (-math.inf, math.inf)
        subset = make_subset(self.name, rows, low, high)
        return STSData(self.name, {"test": [subset]}, self.score_range)

"""Tasks whose items are cosines of sentence pairs."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd
from torch import Tensor

from flowbert.arrays import Floats
from flowbert.tasks.base import Task
from flowbert.tasks.measures import unit_rows

COSINE_DECIMALS = 10  # equal texts have equal cosines on every machine


class PairTask(Task):
    """Pairs of sentences, of which the items are the cosines.

    A subclass has :attr:`metrics` and :meth:`score`.

    Args:
        name: Name in tables.
        first: First sentences, K of them.
        second: Second sentences, K of them.
        split: Measured split.
        strata: Sizes of the groups of pairs that the bootstrap resamples separately; None for one.
        sentences: The sentences in another order than that of the pairs.
    """

    def __init__(
        self,
        name: str,
        first: Sequence[str],
        second: Sequence[str],
        split: str = "test",
        strata: Sequence[int] | None = None,
        sentences: Iterable[str] | None = None,
    ) -> None:
        self.name = name
        self.split = split
        self.count = len(first)
        self.strata = (self.count,) if strata is None else tuple(strata)
        self.sentences = list(dict.fromkeys(sentences or [*first, *second]))
        rows = pd.Index(self.sentences)
        self.left, self.right = rows.get_indexer(first), rows.get_indexer(second)
        self._pairs = first, second

    def items(self, vectors: Tensor) -> Floats:
        """Cosine of each pair."""
        return cosines(vectors[self.left], vectors[self.right])

    def pairs(self) -> tuple[Sequence[str], Sequence[str]]:
        """First and second sentences."""
        return self._pairs

    def texts(self) -> Mapping[str, Sequence[str]]:
        """First and second sentences, as the measured split."""
        first, second = self._pairs
        return {self.split: [*first, *second]}


def cosines(left: Tensor, right: Tensor) -> Floats:
    """Cosine of each pair of rows ``(K, D)``, float64, rounded to 10 decimals."""
    products = unit_rows(left) * unit_rows(right)
    values = products.sum(dim=1).clamp(-1.0, 1.0)
    return np.round(values.cpu().numpy(), COSINE_DECIMALS)

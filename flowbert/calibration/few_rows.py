"""Too few sentences: how many distinct rows were seen, when a map of them means nothing, and when shrinkage helps."""

from collections.abc import Iterable
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from flowbert.seeding import Stream

_AT_ONCE = 1024

ENOUGH = 5
"""Distinct sentences per direction below which shrinkage is advised: docs/how-it-works.md has the measurement."""


class DistinctRows:
    """Number of distinct rows seen in any chunks, exact below ``limit``; there the counting stops and costs nothing.

    Rows are equal if all their values are, in float64. Their hashes (64 bits) are kept until the limit is reached, so
    counts of several processes merge.

    Args:
        limit: Where to stop.
        hashes: What was seen before; ``limit`` of them or more mean that the limit was reached.

    Example:
        >>> x = torch.tensor([[1.0, 2.0], [1.0, 2.0], [3.0, 4.0]])
        >>> int(DistinctRows(10).update(x)), int(DistinctRows(1).update(x))
        (2, 1)
    """

    def __init__(self, limit: int, hashes: Iterable[int] = ()) -> None:
        self.limit = limit
        self._hashes = set(hashes)

    def __int__(self) -> int:
        return min(len(self._hashes), self.limit)

    def update(self, x: Tensor) -> "DistinctRows":
        """Add the rows of ``x`` of shape ``(N, D)``. Returns self."""
        for block in torch.split(x.detach(), _AT_ONCE):
            if len(self._hashes) >= self.limit:
                break
            self._hashes.update(_hashes(block).tolist())
        return self

    def merge(self, other: "DistinctRows") -> "DistinctRows":
        """Add the rows that ``other`` has seen. Returns self."""
        self._hashes |= other._hashes
        return self

    def tensor(self) -> Tensor:
        """The hashes, shape ``(n,)``, int64: equal for equal rows in whatever order, once the limit is reached too."""
        full = len(self._hashes) >= self.limit
        return torch.tensor(list(range(self.limit)) if full else sorted(self._hashes), dtype=torch.int64)


def few_rows(distinct: int, dim: int, noise: float = 0.0) -> str | None:
    """Why a flow of so few rows means nothing, in one line; None if there are enough.

    The density of N <= D points has no largest likelihood: it grows without bound along the directions in which they do
    not vary. Noise spreads them in all directions, by a share of their variance: it takes two points to have any.

    Args:
        distinct: Number N of distinct rows.
        dim: Their size D.
        noise: That the flow is fitted with; 0: none.
    """
    if distinct > (1 if noise else dim):
        return None
    what = f"a flow of N={distinct} distinct sentences in D={dim} dimensions has no maximal likelihood"
    remedies = f"noise, more than {dim} distinct sentences, or fewer dimensions before it (whitening-K+flow)"
    return f"{what}; needed: {'at least 2 distinct sentences' if distinct < 2 else remedies}"


def few_sentences(
    method: str, distinct: int, dim: int, directions: int, effect: str, sentences: str, remedy: str = ""
) -> str | None:
    """Why a map of so few rows means nothing, in one line; None if there are enough.

    Args:
        method: Name of the method.
        distinct: Number N of distinct rows; they span N - 1 directions.
        dim: Their size D.
        directions: Number of directions that the map equalizes or removes: with all N - 1 of them nothing is left.
        effect: What the map does to them then.
        sentences: How many sentences would do.
        remedy: Another remedy, with a comma after it.
    """
    if directions < distinct - 1:
        return None
    fewer = f"fewer than {distinct - 1} directions, " if distinct > 2 else ""
    what = f"{method} of N={distinct} distinct sentences in D={dim} dimensions {effect}"
    return f"{what}; needed: {remedy}{fewer}{'or ' if remedy or fewer else ''}{sentences}"


def _hashes(block: Tensor) -> NDArray[np.int64]:
    """A 64-bit hash of each row, shape ``(N,)``: its bits times fixed random odd numbers, modulo 2^64."""
    rows = (block.cpu().to(torch.float64) + 0.0).numpy()  # -0.0 equals 0.0
    bits = np.ascontiguousarray(rows).view(np.int64)
    # The lower half of a float64 that was a float32 is nearly empty, and a product's low bits see low bits only.
    found: NDArray[np.int64] = (bits ^ (bits >> 32)) @ _multipliers(rows.shape[1])
    return found


@cache
def _multipliers(dim: int) -> NDArray[np.int64]:
    return Stream(0, "hashes").rng().integers(-(2**63), 2**63, dim, dtype=np.int64) | 1

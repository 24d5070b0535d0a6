"""Rank measures in the presence of equal scores: the exact expectation over random orders of what ties."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

TieGroup = tuple[int, int]
"""Size of a run of equal scores, and how many of it are relevant."""


def tie_groups(scores: NDArray[np.float64], relevant: NDArray[np.bool_]) -> list[TieGroup]:
    """Runs of equal scores, highest first: (size, relevant ones).

    Args:
        scores: Finite values of shape ``(N,)``.
        relevant: Shape ``(N,)``.

    Example:
        >>> tie_groups(np.array([0.5, 0.9, 0.5]), np.array([True, False, False]))
        [(1, 0), (2, 1)]
    """
    _, group = np.unique(-scores, return_inverse=True)
    sizes, hits = np.bincount(group), np.bincount(group, weights=relevant)
    return [(int(size), int(hit)) for size, hit in zip(sizes, hits, strict=True)]


def expected_average_precision(groups: Sequence[TieGroup]) -> float:
    """Expected average precision of a ranking with ties; needs a relevant item."""
    above = found = 0
    total = 0.0
    for size, hits in groups:
        for place in range(1, size + 1 if hits else 1):
            # Given a hit at this place, the others lie evenly over the rest of the run.
            before = (place - 1) * (hits - 1) / (size - 1) if size > 1 else 0.0
            total += hits / size * (found + before + 1) / (above + place)
        above, found = above + size, found + hits
    return total / found


def expected_reciprocal_rank(groups: Sequence[TieGroup], cut: int | None = None) -> float:
    """Expected 1 / rank of the first relevant item, 0 where that rank exceeds ``cut``; needs a relevant item."""
    above = 0
    for size, hits in groups:
        if hits:
            return reciprocal_rank_in_run(above, size, hits, cut)
        above += size
    return 0.0


def reciprocal_rank_in_run(above: int, size: int, hits: int, cut: int | None = None) -> float:
    """The same when the first relevant items are ``hits`` of a run of ``size`` that starts after ``above`` others."""
    last = size - hits + 1 if cut is None else min(size - hits + 1, cut - above)
    # Place j is the first hit: the j - 1 before are misses, the other hits lie among the size - j after.
    ways = math.comb(size, hits)
    return sum(math.comb(size - place, hits - 1) / ways / (above + place) for place in range(1, last + 1))

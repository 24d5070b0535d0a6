"""Rank measures in the presence of equal scores: the exact expectation over their random orders."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Run = tuple[int, int]
"""Size of a run of equal scores, and how many of it are relevant."""


def runs_of_equal_scores(scores: NDArray[np.float64], relevant: NDArray[np.bool_]) -> list[Run]:
    """Runs of equal scores, highest first: (size, relevant ones).

    Args:
        scores: Finite values of shape ``(N,)``.
        relevant: Shape ``(N,)``.

    Example:
        >>> runs_of_equal_scores(np.array([0.5, 0.9, 0.5]), np.array([True, False, False]))
        [(1, 0), (2, 1)]
    """
    _, run = np.unique(-scores, return_inverse=True)
    sizes, hits = np.bincount(run), np.bincount(run, weights=relevant)
    return [(int(size), int(hit)) for size, hit in zip(sizes, hits, strict=True)]


def expected_average_precision(runs: Sequence[Run]) -> float:
    """Expected average precision of a ranking; needs a relevant item.

    Example:
        >>> round(expected_average_precision([(1, 1), (1, 0), (1, 1)]), 4)
        0.8333
    """
    above = found = 0
    total = 0.0
    for size, hits in runs:
        for rank in range(1, size + 1 if hits else 1):
            # Given a hit at this rank, the others lie evenly over the rest of the run.
            before = (rank - 1) * (hits - 1) / (size - 1) if size > 1 else 0.0
            total += hits / size * (found + before + 1) / (above + rank)
        above, found = above + size, found + hits
    return total / found


def expected_reciprocal_rank(runs: Sequence[Run]) -> float:
    """Expected 1 / rank of the first relevant item; 0 without one.

    Example:
        >>> expected_reciprocal_rank([(1, 0), (2, 2)])
        0.5
    """
    above = 0
    for size, hits in runs:
        if hits:
            return reciprocal_rank_in_run(above, size, hits)
        above += size
    return 0.0


def reciprocal_rank_in_run(above: int, size: int, hits: int, cut: int | None = None) -> float:
    """The same when the first relevant items are ``hits`` of a run of ``size`` after ``above``; 0 beyond ``cut``."""
    last = size - hits + 1 if cut is None else min(size - hits + 1, cut - above)
    # Rank j is the first hit: the j - 1 before are misses, the other hits lie among the size - j after.
    ways = math.comb(size, hits)
    return sum(math.comb(size - rank, hits - 1) / ways / (above + rank) for rank in range(1, last + 1))

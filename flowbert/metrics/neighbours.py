"""Exact nearest neighbours, block by block, and what they tell of a space."""

import torch
from torch import Tensor

from flowbert.metrics.arrays import Array, to_rows, unit_rows

MEASURES = ("cosine", "dot", "euclidean")
_BLOCK_NUMBERS = 1 << 24  # of one block of similarities: bounds the memory


def nearest_neighbours(x: Array, k: int, measure: str = "cosine", *, queries: Array | None = None) -> Tensor:
    """Row numbers of the k nearest other rows, nearest first: ``(N, k)``, int64.

    Computed in float32 on vectors that are centred for the Euclidean distance, block by block: O(N^2 D) time, O(N D)
    memory.

    Args:
        x: Vectors of shape ``(N, D)``, torch or numpy.
        k: Neighbours of each, below N.
        measure: ``cosine``, ``dot`` (largest product) or ``euclidean``.
        queries: Other vectors ``(M, D)`` whose neighbours among ``x`` are wanted; default: those of ``x`` itself, a row
            being no neighbour of itself.

    Raises:
        ValueError: If ``k`` or ``measure`` is not allowed, or an array is not 2-D.

    Example:
        >>> nearest_neighbours(torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 1.0]]), 1).flatten()
        tensor([1, 0, 3, 2])
    """
    if measure not in MEASURES:
        raise ValueError(f"measure: received {measure!r}; allowed: {', '.join(MEASURES)}")
    rows, asked = (
        (unit_rows(x), None if queries is None else unit_rows(queries))
        if measure == "cosine"
        else (to_rows(x), None if queries is None else to_rows(queries))
    )
    most = len(rows) - (queries is None)
    if not 1 <= k <= most:
        raise ValueError(f"k: received {k}; allowed: 1 to {most}")
    if measure == "euclidean":
        centre = rows.mean(dim=0)
        rows, asked = rows - centre, None if asked is None else asked - centre
    among = rows.float()
    # |a - b|^2 = |a|^2 + |b|^2 - 2 a.b, where |a|^2 changes no order
    offset = among.square().sum(dim=1) / 2 if measure == "euclidean" else None
    wanted = among if asked is None else asked.float()
    found = []
    step = max(1, _BLOCK_NUMBERS // len(among))
    for start in range(0, len(wanted), step):
        similar = wanted[start : start + step] @ among.T
        if offset is not None:
            similar -= offset
        if asked is None:
            similar[torch.arange(len(similar)), torch.arange(start, start + len(similar))] = -torch.inf
        found.append(similar.topk(k, dim=1).indices)
    return torch.cat(found)


def occurrences(neighbours: Tensor, count: int) -> Tensor:
    """How often each of ``count`` rows is among the neighbours of others, ``(count,)``, from ``(N, k)``."""
    return torch.bincount(neighbours.flatten(), minlength=count)

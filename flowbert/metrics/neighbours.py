"""Exact nearest neighbours, block by block, and what they tell of a space."""

import torch
from torch import Tensor

from flowbert.metrics.arrays import Array, to_rows, unit_rows

MEASURES = ("cosine", "dot", "euclidean")
_BLOCK_NUMBERS = 1 << 24  # of one block of similarities: bounds the memory


def nearest_neighbours(x: Array, k: int, measure: str = "cosine") -> Tensor:
    """Row numbers of the k nearest other rows, nearest first: ``(N, k)``, int64.

    Computed in float32 on vectors that are centred for the Euclidean distance, block by block: O(N^2 D) time, O(N D)
    memory.

    Args:
        x: Vectors of shape ``(N, D)``, torch or numpy.
        k: Neighbours of each, below N.
        measure: ``cosine``, ``dot`` (largest product) or ``euclidean``.

    Raises:
        ValueError: If ``k`` or ``measure`` is not allowed, or ``x`` is not 2-D.

    Example:
        >>> nearest_neighbours(torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 1.0]]), 1).flatten()
        tensor([1, 0, 3, 2])
    """
    if measure not in MEASURES:
        raise ValueError(f"measure: received {measure!r}; allowed: {', '.join(MEASURES)}")
    rows = unit_rows(x) if measure == "cosine" else to_rows(x)
    if not 1 <= k < len(rows):
        raise ValueError(f"k: received {k}; allowed: 1 to {len(rows) - 1}")
    if measure == "euclidean":
        rows = rows - rows.mean(dim=0)
    among = rows.float()
    # |a - b|^2 = |a|^2 + |b|^2 - 2 a.b, where |a|^2 changes no order
    offset = among.square().sum(dim=1) / 2 if measure == "euclidean" else None
    found = []
    step = max(1, _BLOCK_NUMBERS // len(among))
    for start in range(0, len(among), step):
        similar = among[start : start + step] @ among.T
        if offset is not None:
            similar -= offset
        similar[torch.arange(len(similar)), torch.arange(start, start + len(similar))] = -torch.inf
        found.append(similar.topk(k, dim=1).indices)
    return torch.cat(found)

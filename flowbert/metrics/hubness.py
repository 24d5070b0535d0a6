"""Hubness: whether few vectors are among the nearest neighbours of very many."""

import math

import torch

from flowbert.metrics.arrays import Array, drawn_unit_rows
from flowbert.metrics.neighbours import nearest_neighbours


def hubness(x: Array, k: int = 10, *, vectors: int | None = None, seed: int = 0) -> float:
    r"""Skewness :math:`\operatorname{mean}_i (N_i - k)^3 / \sigma^3` of the k-occurrences.

    :math:`N_i` counts the other vectors that have vector i among their k nearest by cosine; its mean is k. High: a few
    hubs are found whatever one searches. Exact, in O(N^2 D) time: of more than some ten thousand vectors draw a part,
    and compare figures of equal numbers of vectors only. Which of equally near neighbours count is left open.

    References:
        Hubs in Space: Popular Nearest Neighbors in High-Dimensional Data (Radovanovic, Nanopoulos, Ivanovic, 2010).
        https://www.jmlr.org/papers/v11/radovanovic10a.html

    Args:
        x: Vectors of shape ``(N, D)``, torch or numpy; need not be normalized.
        k: Neighbours of each vector, at least 1.
        vectors: How many to draw, at least 2; default, or if there are no more: all.
        seed: Seed of the draw.

    Returns:
        The skewness; 0 where all occur equally often. NaN, with a warning, for fewer than k + 1 vectors or one without
        direction.

    Raises:
        ValueError: If ``x`` is not 2-D, ``k`` is below 1, or ``vectors`` below 2.

    Example:
        >>> import torch
        >>> hubness(torch.eye(5) + 0.5 * torch.roll(torch.eye(5), 1, 0), k=2)  # a ring: each has its two beside it
        0.0
    """
    if k < 1:
        raise ValueError(f"k: received {k}; allowed: at least 1")
    unit = drawn_unit_rows(x, "hubness", k + 1, vectors, seed)
    if unit is None:
        return math.nan
    deviations = torch.bincount(nearest_neighbours(unit, k).flatten(), minlength=len(unit)).double() - k
    variance = float(deviations.square().mean())
    return float(deviations.pow(3).mean()) / variance**1.5 if variance else 0.0

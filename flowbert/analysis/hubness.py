"""Hubness: whether a few vectors are neighbours of very many."""

import math

import numpy as np
from scipy import stats

from flowbert.analysis.nearest import nearest_neighbours
from flowbert.tasks.measures import Array, unit_rows


def hubness(x: Array, k: int = 10) -> float:
    r"""Hubness: skewness :math:`\operatorname{mean}_i (N_i - k)^3 / \sigma^3` of the k-occurrences.

    :math:`N_i` counts the other vectors that have vector i among their k nearest by cosine; its
    mean is k. High: a few vectors are neighbours of very many. Exact, in O(N^2 D) time; only
    values of equal N can be compared.

    References:
        Hubs in Space: Popular Nearest Neighbors in High-Dimensional Data (Radovanovic et al.,
        2010). https://www.jmlr.org/papers/v11/radovanovic10a.html

    Args:
        x: Vectors, ``(N, D)``; need not be normalized.
        k: Number of neighbours.

    Returns:
        The skewness; 0 where all vectors occur equally often; NaN for fewer than k + 1 vectors or
        one without direction.

    Example:
        >>> import torch
        >>> ring = torch.eye(5) + 0.5 * torch.roll(torch.eye(5), 1, 0)
        >>> hubness(ring, k=2)
        0.0
    """
    if len(x) <= k or not bool(unit_rows(x).isfinite().all()):
        return math.nan
    occurrences = np.bincount(nearest_neighbours(x, k)[1].ravel(), minlength=len(x))
    if bool((occurrences == k).all()):
        return 0.0
    return float(stats.skew(occurrences))

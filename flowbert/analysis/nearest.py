"""Exact nearest neighbours, and hubness."""

import math

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from flowbert.arrays import Floats
from flowbert.tasks.measures import Array, to_rows, unit_rows


def nearest_neighbours(
    x: Array, k: int, metric: str = "cosine"
) -> tuple[Floats, NDArray[np.int64]]:
    """Distances to the k nearest other vectors and their rows, nearest first: both ``(N, k)``.

    Computed block by block in O(N^2 D) time.

    Args:
        x: Vectors, ``(N, D)``.
        k: Number of neighbours, below N.
        metric: ``cosine`` (the distance is one less the cosine) or ``euclidean``.

    Example:
        >>> x = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 1.0]])
        >>> nearest_neighbours(x, 1)[1].ravel()
        array([1, 0, 3, 2])
    """
    from sklearn.neighbors import NearestNeighbors  # not before something is measured

    rows = to_rows(x)
    if metric == "euclidean":
        rows = rows - rows.mean(
            dim=0
        )  # distances come from products: large means cost digits
    index = NearestNeighbors(n_neighbors=k, algorithm="brute", metric=metric)
    distances, neighbours = index.fit(rows.cpu().numpy()).kneighbors()
    return distances, neighbours


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

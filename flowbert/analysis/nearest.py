"""Exact nearest neighbours."""

import numpy as np
from numpy.typing import NDArray

from flowbert.arrays import Floats
from flowbert.tasks.measures import Array, to_rows


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

"""Exact nearest neighbours, and those of a few sentences under every method."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

from flowbert.arrays import Floats
from flowbert.tasks.measures import Array, to_rows

RAW = "raw"
NEIGHBOURS = 5
SHOWN = 5  # sentences


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
    rows = to_rows(x)
    if metric == "euclidean":
        rows = rows - rows.mean(
            dim=0
        )  # distances come from products: large means cost digits
    index = NearestNeighbors(n_neighbors=k, algorithm="brute", metric=metric)
    distances, neighbours = index.fit(rows.cpu().numpy()).kneighbors()
    return distances, neighbours


def sentence_neighbours(
    sentences: Sequence[str], vectors: Mapping[str, Array]
) -> pd.DataFrame:
    """The five nearest neighbours by cosine of the first five sentences, under every method.

    Args:
        sentences: N sentences, N above 5.
        vectors: Their vectors by method, ``(N, D)``.

    Returns:
        The frame ``neighbours`` of :class:`~flowbert.analysis.Analysis`.
    """
    nearest = {
        method: nearest_neighbours(x, NEIGHBOURS)[1] for method, x in vectors.items()
    }
    records = []
    for i, sentence in enumerate(sentences[:SHOWN]):
        for method, neighbours in nearest.items():
            for rank, j in enumerate(neighbours[i], start=1):
                moved = RAW in nearest and j not in nearest[RAW][i]
                records.append((sentence, method, rank, sentences[j], moved))
    return pd.DataFrame(
        records, columns=["sentence", "method", "rank", "neighbour", "moved"]
    )

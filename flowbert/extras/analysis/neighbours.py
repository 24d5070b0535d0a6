"""Nearest neighbours of sentences under every method, and hubs among them."""

import math
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from flowbert.arrays import Floats
from flowbert.extras.analysis.sample import RAW, Sample
from flowbert.tasks.measures import Array, to_rows, unit_rows

NEAREST = 5
MEASURED = 30  # sentences
_SHOWN = 4  # sentences on a page
_NEAREST_SHOWN = 3


def nearest_neighbours(
    x: Array, k: int, metric: str = "cosine"
) -> tuple[Floats, NDArray[np.int64]]:
    """Distances to and indices of the k nearest other vectors, nearest first: both ``(N, k)``.

    Computed block by block in O(N^2 D) time.

    Args:
        x: Vectors, ``(N, D)``.
        k: Number of neighbours, below N.
        metric: ``cosine`` (the distance is 1 minus the cosine) or ``euclidean``.

    Example:
        >>> x = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 1.0]])
        >>> nearest_neighbours(x, 1)[1].ravel()
        array([1, 0, 3, 2])
    """
    from sklearn.neighbors import NearestNeighbors  # not before something is measured

    rows = to_rows(x)
    if metric == "euclidean":
        # Distances come from products: large means would cost digits.
        rows = rows - rows.mean(dim=0)
    index = NearestNeighbors(n_neighbors=k, algorithm="brute", metric=metric)
    distances, neighbours = index.fit(rows.cpu().numpy()).kneighbors()
    return distances, neighbours


def hubness(x: Array, k: int = 10) -> float:
    r"""Hubness: skewness :math:`\operatorname{mean}_i (N_i - k)^3 / \sigma^3` of the k-occurrences.

    :math:`N_i` counts the other vectors that have vector i among their k nearest by cosine; its
    mean is k. If hubness is high, a few vectors are neighbours of very many. Exact, in O(N^2 D)
    time. Compare only values with equal N.

    References:
        Hubs in Space: Popular Nearest Neighbors in High-Dimensional Data (Radovanovic et al.,
        2010). https://www.jmlr.org/papers/v11/radovanovic10a.html

    Args:
        x: Vectors, ``(N, D)``; need not be normalized.
        k: Number of neighbours, below N.

    Returns:
        The skewness; 0 if all vectors occur equally often, NaN if a vector has no direction.

    Example:
        >>> import torch
        >>> ring = torch.eye(5) + 0.5 * torch.roll(torch.eye(5), 1, 0)
        >>> hubness(ring, k=2)
        0.0
    """
    if not bool(unit_rows(x).isfinite().all()):
        return math.nan
    occurrences = np.bincount(nearest_neighbours(x, k)[1].ravel(), minlength=len(x))
    return 0.0 if (occurrences == k).all() else float(stats.skew(occurrences))


def neighbours(sample: Sample) -> pd.DataFrame:
    """A row per method, sentence and rank, from 1: five neighbours of the first 30 sentences.

    ``neighbour`` is the sentence of this rank, ``cosine`` its cosine with the first sentence, and
    ``moved`` is true if it is not a neighbour under raw.
    """
    texts = np.array(sample.sentences)

    def measure(x: Array) -> dict[str, Any]:
        distances, rows = (part[:MEASURED] for part in nearest_neighbours(x, NEAREST))
        return {
            "sentence": np.repeat(texts[: len(rows)], NEAREST),
            "rank": np.tile(np.arange(NEAREST) + 1, len(rows)),
            "neighbour": texts[rows].ravel(),
            "cosine": (1 - distances).round(4).ravel(),
        }

    frame = sample.by_method(measure)
    if RAW not in sample.vectors:
        return frame.assign(moved=False)
    pairs = pd.MultiIndex.from_frame(frame[["sentence", "neighbour"]])
    return frame.assign(moved=~pairs.isin(pairs[frame["method"] == RAW]))


def tabulate_neighbours(frame: pd.DataFrame) -> pd.DataFrame:
    """A table of three neighbours of four sentences, a column per method."""
    sentences = frame["sentence"].unique()[:_SHOWN]
    rows = frame[frame["sentence"].isin(sentences) & frame["rank"].le(_NEAREST_SHOWN)]
    text = rows["cosine"].map("{:z.2f} ".format) + rows["neighbour"]
    text += rows["moved"].map({True: " (new)", False: ""})
    table = rows.assign(text=text).pivot_table(
        "text", ["sentence", "rank"], "method", "first", sort=False
    )
    return table.rename_axis(columns=None)

"""Word embeddings against word frequency: norms, neighbours, and the first two directions."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from flowbert.metrics.arrays import Array, to_rows
from flowbert.metrics.neighbours import nearest_neighbours

BUCKETS = (0, 100, 500, 5000, 10000)
"""Bounds of the frequency ranks in table 1 of Li et al. (2020)."""


class WordBucket(NamedTuple):
    """Words of some frequency ranks.

    Attributes:
        first: First rank, from 0, the most frequent word.
        last: Rank after the last.
        norm: Mean Euclidean norm.
        distance: k -> mean distance to the k nearest neighbours.
        product: k -> mean dot product with them.
    """

    first: int
    last: int
    norm: float
    distance: dict[int, float]
    product: dict[int, float]


class WordPoint(NamedTuple):
    """A word on the first two singular directions.

    Attributes:
        rank: Its frequency rank, from 0.
        first: Coordinate on the first.
        second: Coordinate on the second.
    """

    rank: int
    first: float
    second: float


def word_buckets(
    embeddings: Array, counts: Array, *, bounds: Sequence[int] = BUCKETS, ks: Sequence[int] = (3, 5, 7)
) -> list[WordBucket]:
    """Norms and neighbours of word embeddings by frequency: table 1 of the paper, for any corpus.

    Words are ranked by their counts, equal ones by their number. Neighbours are the nearest by Euclidean distance
    among all ranked words below the last bound, exactly; the paper does not say among which.

    References:
        On the Sentence Embeddings from Pre-trained Language Models (Li et al., 2020), table 1.
        https://arxiv.org/abs/2011.05864

    Args:
        embeddings: Word embeddings ``(V, D)``, torch or numpy.
        counts: How often each occurs in a corpus, ``(V,)``; words that do not occur have no rank.
        bounds: Bounds of the ranks; a bucket that the ranked words do not reach is left out.
        ks: Numbers of neighbours.

    Raises:
        ValueError: If the shapes do not fit, or there are not enough words for the neighbours.

    Example:
        >>> x = torch.randn(300, 4, generator=torch.Generator().manual_seed(0)) + torch.arange(300.0)[:, None] / 50
        >>> frequent, rare = word_buckets(x, torch.arange(300, 0, -1), bounds=(0, 100, 300))
        >>> (frequent.first, frequent.last, rare.last), frequent.norm < rare.norm
        ((0, 100, 300), True)
    """
    words = to_rows(embeddings)
    occurring = torch.as_tensor(counts)
    if occurring.shape != (len(words),):
        raise ValueError(f"counts have the shape {tuple(occurring.shape)}; allowed: ({len(words)},)")
    ranked = occurring.argsort(descending=True, stable=True)
    ranked = ranked[occurring[ranked] > 0][: max(bounds)]
    rows = words[ranked.to(words.device)]
    near = nearest_neighbours(rows, max(ks), "euclidean")
    distances, products = _to_neighbours(rows, near)
    return [
        WordBucket(
            first,
            min(last, len(rows)),
            float(rows[first:last].norm(dim=1).mean()),
            {k: float(distances[first:last, :k].mean()) for k in ks},
            {k: float(products[first:last, :k].mean()) for k in ks},
        )
        for first, last in pairwise(bounds)
        if first < len(rows)
    ]


def _to_neighbours(rows: Tensor, near: Tensor) -> tuple[Tensor, Tensor]:
    """Distances to neighbours and products with them, each ``(N, k)``."""
    columns = [rows[near[:, place]] for place in range(near.shape[1])]
    distances = torch.stack([(rows - other).norm(dim=1) for other in columns], dim=1)
    return distances, torch.stack([(rows * other).sum(dim=1) for other in columns], dim=1)


def principal_projection(embeddings: Array) -> Tensor:
    """Coordinates on the first two right singular vectors of the embeddings as they are, ``(V, 2)``, float64.

    References:
        Representation Degeneration Problem in Training Natural Language Generation Models (Gao et al., 2019), figure 1.
        https://arxiv.org/abs/1907.12009

    Example:
        >>> principal_projection(torch.tensor([[3.0, 0.0, 0.0], [0.0, -2.0, 0.0]])).abs()
        tensor([[3., 0.],
                [0., 2.]], dtype=torch.float64)
    """
    rows = to_rows(embeddings)
    directions: Tensor = torch.linalg.eigh(rows.T @ rows).eigenvectors[:, -2:].flip(1)
    return rows @ directions


def word_points(embeddings: Array, buckets: Sequence[WordBucket], each: int = 200) -> list[WordPoint]:
    """Words to draw on the first two singular directions of all.

    Args:
        embeddings: Those of the ranked words ``(W, D)``, the most frequent first.
        buckets: Their buckets.
        each: Most words of a bucket, evenly chosen.

    Example:
        >>> x = torch.randn(30, 4, generator=torch.Generator().manual_seed(0))
        >>> buckets = word_buckets(x, torch.arange(30, 0, -1), bounds=(0, 10, 30))
        >>> [point.rank for point in word_points(x, buckets, each=4)]
        [0, 3, 6, 9, 10, 15, 20, 25]
    """
    projection = principal_projection(embeddings).cpu()
    ranks = [
        rank
        for bucket in buckets
        for rank in range(bucket.first, bucket.last, math.ceil((bucket.last - bucket.first) / each))
    ]
    return [WordPoint(rank, *projection[rank].tolist()) for rank in ranks]

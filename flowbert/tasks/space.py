"""Metrics of the space of a task's vectors: each is written here once, in :data:`SPACE_METRICS`."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from flowbert.tasks.measures import (
    alignment,
    isoscore,
    mean_cosine,
    spectrum,
    uniformity,
)


@dataclass(frozen=True, eq=False)
class Space:
    """Vectors of a task.

    Attributes:
        vectors: Those of its distinct sentences, ``(M, D)``.
        first: First vectors of its positive pairs, ``(P, D)``.
        second: Second vectors of its positive pairs, ``(P, D)``.
        limit: Largest number of vectors for a time of O(M^2 D); None for all.
    """

    vectors: Tensor
    first: Tensor
    second: Tensor
    limit: int | None = None


@dataclass(frozen=True)
class SpaceMetric:
    """A metric of vectors, which is not scaled by 100 and has no interval.

    Attributes:
        compute: Its value, NaN where it is undefined.
        sign: 1 if higher is better, -1 if lower is better, NaN if neither.
        undefined: Why it is undefined where it is.
        of_pairs: Whether it is undefined without positive pairs, too.
        is_detail: Whether tables of the terminal leave it out, and the page folds it.
    """

    compute: Callable[[Space], float]
    sign: float = math.nan
    undefined: str = "fewer than two sentences, or a vector without direction"
    of_pairs: bool = False
    is_detail: bool = False


SPACE_METRICS = {
    "alignment": SpaceMetric(
        lambda space: alignment(space.first, space.second),
        -1,
        of_pairs=True,
    ),
    "uniformity": SpaceMetric(
        lambda space: uniformity(space.vectors, limit=space.limit, dtype=torch.float32),
        -1,
    ),
    "mean_cosine": SpaceMetric(lambda space: mean_cosine(space.vectors)),
    "isoscore": SpaceMetric(
        lambda space: isoscore(spectrum(space.vectors)),
        1,
        "all vectors are equal, have one dimension, or are not finite",
        is_detail=True,
    ),
}
"""Metrics by name, in the order of tables."""

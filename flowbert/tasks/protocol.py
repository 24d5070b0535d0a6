"""The STS protocol: cosine of two embeddings, Spearman against gold, aggregated over subsets in three named ways."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from flowbert.metrics import spearman, spearman_or_nan
from flowbert.metrics.arrays import unit_rows

Embed = Callable[[Sequence[str]], Tensor | NDArray[Any]]
"""From M sentences to embeddings of shape ``(M, D)``."""
Transform = Callable[[Tensor], Tensor]
"""From embeddings ``(M, D)`` to ``(M, k)``, e.g. a fitted calibration's ``transform``."""
Floats = NDArray[np.float64]

AGGREGATIONS = ("all", "mean", "wmean")
COSINE_DECIMALS = 10


class Aggregates(NamedTuple):
    """Spearman over subsets, each figure in [-1, 1].

    Attributes:
        all: One Spearman over the concatenated pairs.
        mean: Plain average of the subsets' Spearmans.
        wmean: Average of the subsets' Spearmans weighted by their pairs.
        subsets: The subsets' Spearmans.
    """

    all: float
    mean: float
    wmean: float
    subsets: tuple[float, ...]


def cosine(left: Tensor, right: Tensor) -> Floats:
    r"""Cosine :math:`\hat x_i \cdot \hat y_i` of each pair, in float64, rounded to 10 decimals.

    The rounding makes pairs of equal sentences tie at exactly 1: unrounded they differ in the sixteenth digit by the
    order of summation, and with it their ranks, so a figure would depend on the machine.

    Args:
        left: Vectors of shape ``(N, D)``.
        right: Vectors of shape ``(N, D)``.

    Returns:
        Cosines of shape ``(N,)``; NaN, with a warning, where a vector has no direction.
    """
    return cosine_of_units(unit_rows(left, "left vectors"), unit_rows(right, "right vectors"))


def cosine_of_units(left: Tensor, right: Tensor) -> Floats:
    """As :func:`cosine`, of unit vectors in float64."""
    products = (left * right).sum(dim=1)
    return np.round(products.clamp(-1.0, 1.0).cpu().numpy(), COSINE_DECIMALS)


def aggregate(gold: Sequence[NDArray[Any]], predicted: Sequence[NDArray[Any]], *, warn: bool = True) -> Aggregates:
    """Spearman over subsets, aggregated in the three ways that papers use without saying which.

    A subset without a figure (constant or non-finite values, fewer than two pairs) makes ``mean`` and ``wmean`` NaN,
    with a warning.

    References:
        SimCSE: Simple Contrastive Learning of Sentence Embeddings, appendix B (Gao et al., 2021).
        https://arxiv.org/abs/2104.08821

    Args:
        gold: Gold scores by subset, each of shape ``(N_s,)``.
        predicted: Similarities by subset, each of shape ``(N_s,)``.
        warn: Whether to warn of a figure that does not exist.

    Raises:
        ValueError: If there are no subsets, or the numbers of subsets or of their pairs differ.

    Example:
        >>> gold = [np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0])]
        >>> round(aggregate(gold, [np.array([0.1, 0.2, 0.3]), np.array([0.9, 0.8])]).wmean, 6)
        0.2
    """
    if len(gold) != len(predicted) or not gold:
        raise ValueError(
            f"{len(gold)} subsets of gold scores and {len(predicted)} of similarities; allowed: as many, >= 1"
        )
    figure = spearman if warn else spearman_or_nan
    subsets = tuple(figure(p, g) for g, p in zip(gold, predicted, strict=True))
    if len(gold) == 1:
        return Aggregates(subsets[0], subsets[0], subsets[0], subsets)
    sizes = [len(scores) for scores in gold]
    return Aggregates(
        all=figure(np.concatenate(list(predicted)), np.concatenate(list(gold))),
        mean=sum(subsets) / len(subsets),
        wmean=sum(size * found for size, found in zip(sizes, subsets, strict=True)) / sum(sizes),
        subsets=subsets,
    )

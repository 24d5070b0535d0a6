"""Uniformity: how evenly vectors spread over the unit sphere."""

import math
import warnings
from typing import NamedTuple

import torch
from torch import Tensor

from flowbert.errors import FlowbertWarning, UserError
from flowbert.metrics.arrays import Array, to_rows, unit_rows
from flowbert.seeding import Stream

_BLOCK_ROWS = 1024


class SampledUniformity(NamedTuple):
    """Uniformity of a random part of the vectors, and what the part was.

    Attributes:
        value: The uniformity of the part.
        vectors: How many vectors were used.
        total: How many there were.
        seed: Seed of the choice.
    """

    value: float
    vectors: int
    total: int
    seed: int


def uniformity(x: Array, t: float = 2.0) -> float:
    r"""Uniformity :math:`\log \operatorname{mean}_{i < j} e^{-t |\hat x_i - \hat x_j|^2}` over all distinct pairs.

    Lower is better. Exact: every pair is counted once, in blocks of a float64 matrix product, so memory is O(N D). Time
    is O(N^2 D); for more than some ten thousand vectors consider :func:`sampled_uniformity`.

    References:
        Understanding Contrastive Representation Learning through Alignment and Uniformity on the Hypersphere
        (Wang, Isola, 2020). https://arxiv.org/abs/2005.10242

    Args:
        x: Vectors of shape ``(N, D)``, torch or numpy; need not be normalized.
        t: Factor of the squared distance, above 0.

    Returns:
        The uniformity in [-4 t, 0]; NaN, with a warning, for fewer than two vectors or one without direction.

    Raises:
        UserError: If ``x`` is not 2-D, or ``t`` is not above 0.

    Example:
        >>> round(uniformity(torch.tensor([[1.0, 0.0], [-2.0, 0.0]])), 12)
        -8.0
    """
    if not (math.isfinite(t) and t > 0):
        raise UserError(f"t is {t}; allowed: a number above 0")
    unit = unit_rows(x)
    count = len(unit)
    if count < 2:
        warnings.warn(f"uniformity is NaN: {count} vectors; at least 2 are needed", FlowbertWarning, stacklevel=2)
        return math.nan
    if not bool(torch.isfinite(unit).all()):
        return math.nan
    total = torch.zeros((), dtype=torch.float64, device=unit.device)
    for start in range(0, count, _BLOCK_ROWS):
        total += _kernel_sum(unit[start : start + _BLOCK_ROWS], unit[start:], t)
    return math.log(float(total) / (count * (count - 1) / 2))


def _kernel_sum(block: Tensor, rest: Tensor, t: float) -> Tensor:
    """Sum of the kernel over pairs within ``block`` (the head of ``rest``) and between it and what follows."""
    total = torch.zeros((), dtype=torch.float64, device=block.device)
    for start in range(0, len(rest), _BLOCK_ROWS):
        # |a - b|^2 = 2 - 2 a.b on the sphere
        kernel = torch.mm(block, rest[start : start + _BLOCK_ROWS].T).sub_(1).mul_(2 * t).exp_()
        total += kernel.triu_(diagonal=1).sum() if start == 0 else kernel.sum()
    return total


def sampled_uniformity(x: Array, vectors: int, seed: int = 0, t: float = 2.0) -> SampledUniformity:
    """Uniformity over all distinct pairs of a random part of the vectors, drawn without replacement.

    Args:
        x: Vectors of shape ``(N, D)``, torch or numpy.
        vectors: How many to draw, at least 2; all are used if there are no more.
        seed: Seed of the draw.
        t: Factor of the squared distance, above 0.

    Raises:
        UserError: If ``x`` is not 2-D, ``vectors`` is below 2, or ``t`` is not above 0.

    Example:
        >>> result = sampled_uniformity(torch.eye(4), vectors=3)
        >>> round(result.value, 6), result.vectors, result.total
        (-4.0, 3, 4)
    """
    if vectors < 2:
        raise UserError(f"vectors is {vectors}; allowed: at least 2")
    rows = to_rows(x)
    total = len(rows)
    if vectors < total:
        order = torch.randperm(total, generator=Stream(seed, "uniformity").generator())
        rows = rows[order[:vectors].sort().values.to(rows.device)]
    return SampledUniformity(uniformity(rows, t), len(rows), total, seed)

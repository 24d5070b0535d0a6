"""Uniformity: how evenly vectors spread over the unit sphere."""

import math

import torch
from torch import Tensor

from flowbert.metrics.arrays import Array, drawn_unit_rows

_BLOCK_ROWS = 1024


def uniformity(
    x: Array, t: float = 2.0, *, vectors: int | None = None, seed: int = 0, dtype: torch.dtype = torch.float64
) -> float:
    r"""Uniformity :math:`\log \operatorname{mean}_{i < j} e^{-t |\hat x_i - \hat x_j|^2}` over all distinct pairs.

    Lower is better. Exact: every pair is counted once, in blocks of a matrix product, so memory is O(N D). Time is
    O(N^2 D); of more than some ten thousand vectors a random part, drawn without replacement, says enough.

    References:
        Understanding Contrastive Representation Learning through Alignment and Uniformity on the Hypersphere
        (Wang, Isola, 2020). https://arxiv.org/abs/2005.10242

    Args:
        x: Vectors of shape ``(N, D)``, torch or numpy; need not be normalized.
        t: Factor of the squared distance, above 0.
        vectors: How many to draw, at least 2; default, or if there are no more: all.
        seed: Seed of the draw.
        dtype: Precision of the products; unit vectors and sums are float64. float32 takes half the time and moves the
            uniformity by less than 1e-6 at t = 2.

    Returns:
        The uniformity in [-4 t, 0]; NaN, with a warning, for fewer than two vectors or one without direction.

    Raises:
        ValueError: If ``x`` is not 2-D, ``t`` is not above 0, or ``vectors`` below 2.

    Example:
        >>> round(uniformity(torch.tensor([[1.0, 0.0], [-2.0, 0.0]])), 12)
        -8.0
    """
    if not (math.isfinite(t) and t > 0):
        raise ValueError(f"t: received {t}; allowed: a number above 0")
    unit = drawn_unit_rows(x, "uniformity", 2, vectors, seed)
    if unit is None:
        return math.nan
    count, unit = len(unit), unit.to(dtype)
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
        total += (kernel.triu_(diagonal=1) if start == 0 else kernel).sum(dtype=torch.float64)
    return total

"""Uniformity: how evenly vectors spread over the unit sphere."""

import math

import torch
from torch import Tensor

from flowbert.metrics.arrays import Array, drawn_unit_rows
from flowbert.threads import MANY, in_threads


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
        dtype: Precision of the products and of the sums of a row; unit vectors and totals are float64. float32 takes
            half the time and moves the uniformity by less than 1e-6 at t = 2.

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
    rows, columns, workers = (256, 512, MANY) if unit.device.type == "cpu" else (2048, 2048, 1)
    shift = torch.full((1,), -2 * t, dtype=dtype, device=unit.device)

    def of_rows(start: int) -> Tensor:
        """Sum over the pairs of some rows with all later ones, by tiles that stay in a CPU's caches."""
        block, total = unit[start : start + rows], torch.zeros((), dtype=torch.float64, device=unit.device)
        memory = torch.empty(len(block) * columns, dtype=dtype, device=unit.device)
        for begin in range(start, count, columns):
            others = unit[begin : begin + columns]
            kernel = memory[: len(block) * len(others)].view(len(block), len(others))
            # |a - b|^2 = 2 - 2 a.b on the sphere
            torch.addmm(shift, block, others.T, alpha=2 * t, out=kernel).exp_()
            if begin == start:
                kernel.triu_(diagonal=1)
            total += kernel.sum(dim=1).sum(dtype=torch.float64)
        return total

    with in_threads(of_rows, range(0, count, rows), workers) as sums:
        total = torch.stack(list(sums)).sum()
    return math.log(float(total) / (count * (count - 1) / 2))

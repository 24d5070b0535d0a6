"""Alignment: how close positive pairs lie."""

import math
import warnings

from flowbert.errors import FlowbertWarning
from flowbert.metrics.arrays import Array, unit_rows


def alignment(x: Array, y: Array) -> float:
    r"""Alignment :math:`\operatorname{mean}_i |\hat x_i - \hat y_i|^2` of positive pairs on the unit sphere.

    Lower is better. Computed in float64. No pairs, or a vector without direction, give NaN with a warning.

    References:
        Understanding Contrastive Representation Learning through Alignment and Uniformity on the Hypersphere
        (Wang, Isola, 2020). https://arxiv.org/abs/2005.10242

    Args:
        x: Vectors of shape ``(N, D)``, torch or numpy; need not be normalized.
        y: Their positives, shape ``(N, D)``.

    Returns:
        The alignment in [0, 4], or NaN.

    Raises:
        ValueError: If an argument is not 2-D, or the shapes differ.

    Example:
        >>> import torch
        >>> alignment(torch.tensor([[3.0, 0.0]]), torch.tensor([[0.0, 0.5]]))
        2.0
    """
    left, right = unit_rows(x, "left vectors"), unit_rows(y, "right vectors")
    if left.shape != right.shape:
        raise ValueError(f"pairs have the shapes {tuple(left.shape)} and {tuple(right.shape)}; allowed: equal shapes")
    if len(left) == 0:
        warnings.warn("alignment is NaN: no positive pairs", FlowbertWarning, stacklevel=2)
        return math.nan
    return float((left - right).square().sum(dim=1).mean())

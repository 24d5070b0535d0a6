"""Isotropy: the mean cosine of random pairs."""

import math
import warnings

from flowbert.errors import FlowbertWarning
from flowbert.metrics.arrays import Array, unit_rows


def mean_cosine(x: Array) -> float:
    r"""Mean cosine :math:`(|\sum_i \hat x_i|^2 - n) / (n (n - 1))` over all distinct pairs, exact in O(N D).

    Near 0 for an isotropic cloud, near 1 for one in a narrow cone. Computed in float64.

    References:
        How Contextual are Contextualized Word Representations? (Ethayarajh, 2019). https://arxiv.org/abs/1909.00512

    Args:
        x: Vectors of shape ``(N, D)``, torch or numpy; need not be normalized.

    Returns:
        The mean in [-1, 1]; NaN, with a warning, for fewer than two vectors or one without direction.

    Raises:
        ValueError: If ``x`` is not 2-D.

    Example:
        >>> import torch
        >>> mean_cosine(torch.tensor([[1.0, 0.0], [0.0, 2.0]]))
        0.0
    """
    unit = unit_rows(x)
    count = len(unit)
    if count < 2:
        warnings.warn(f"mean cosine is NaN: {count} vectors; at least 2 are needed", FlowbertWarning, stacklevel=2)
        return math.nan
    return (float(unit.sum(dim=0).square().sum()) - count) / (count * (count - 1))

"""Standardization: zero mean and unit variance in every dimension."""

import warnings

import torch
from torch import Tensor

from flowbert.calibration.base import AffineMap, Calibration
from flowbert.calibration.moments import Moments
from flowbert.errors import FlowbertWarning

_SMALLEST_STD = 1e-7
"""Smallest trusted standard deviation as a share of the largest: what float32 embeddings resolve."""


class Standardization(Calibration, method="standardization"):
    r"""Standard normalization :math:`y_j = (x_j - \mu_j) / \sigma_j`, divisor N - 1.

    A dimension that does not vary is only centred, with a warning.

    References:
        On the Sentence Embeddings from Pre-trained Language Models, table 5 (Li et al., 2020).
        https://arxiv.org/abs/2011.05864

    Shapes:
        x, transformed: ``(N, D)``.  N: sentences, D: embedding size.

    Example:
        >>> x = torch.tensor([[0.0, 10.0], [2.0, 30.0]])
        >>> Standardization().fit(x).transform(torch.tensor([[1.0, 20.0]])).tolist()
        [[0.0, 0.0]]
    """

    def solve(self, moments: Moments) -> AffineMap:
        """The standardizing map of these statistics."""
        std = standard_deviations(moments)
        return AffineMap(moments.mean, torch.diag(1 / std), torch.diag(std))


def standard_deviations(moments: Moments) -> Tensor:
    """Standard deviation per dimension, shape ``(D,)``; 1, with a warning, where a dimension does not vary."""
    std = moments.covariance().diagonal().clamp_min(0.0).sqrt()
    constant = std <= _SMALLEST_STD * std.max()
    if bool(constant.any()):
        warnings.warn(
            f"standardization: {int(constant.sum())} of D={moments.dim} dimensions do not vary over N={moments.count} "
            f"rows (standard deviations from {std.max():.3e} down to {std.min():.3e}); they are only centred",
            FlowbertWarning,
            stacklevel=2,
        )
    return torch.where(constant, torch.ones_like(std), std)

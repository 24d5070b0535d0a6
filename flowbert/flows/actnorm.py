"""Activation normalization with a data-dependent initialization."""

import torch
from torch import Tensor, nn

from flowbert.flows.bijection import DataInitialized

LOGSCALE_FACTOR = 3.0
"""Gradients and weight decay act on s = log(scale) / 3, as in the official code."""

STD_FLOOR = 1e-6
"""Keeps the scale of a constant dimension finite."""


class ActNorm(DataInitialized):
    r"""Activation normalization: :math:`z = (x + b) e^{3 s}`, :math:`\log|\det| = 3 \sum_d s_d`.

    It is initialized so that the output of one batch has mean 0 and standard deviation 1: b =
    -mean, :math:`3 s = -\log(\mathrm{std} + 10^{-6})`, with the std of the population. In training
    mode that is the first batch; in eval mode a layer that was not initialized is the identity.

    References:
        Glow: Generative Flow with Invertible 1x1 Convolutions (Kingma and Dhariwal, 2018).
        https://arxiv.org/abs/1807.03039

    Args:
        dim: Vector size D.

    Raises:
        UserError: If the first batch has fewer than 2 rows or holds NaN or infinity.

    Example:
        >>> z, log_det = ActNorm(1)(torch.tensor([[1.0], [3.0], [5.0]]))
        >>> z.mean().item(), round(z.std(correction=0).item(), 4)
        (0.0, 1.0)
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(dim))
        self.log_scale = nn.Parameter(torch.zeros(dim))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Shift, then scale."""
        self.initialize_once(x)
        exponent = LOGSCALE_FACTOR * self.log_scale
        return (x + self.bias) * exponent.exp(), exponent.sum().expand(x.shape[0])

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Undo the scale, then the shift."""
        exponent = LOGSCALE_FACTOR * self.log_scale
        return z * (-exponent).exp() - self.bias, -exponent.sum().expand(z.shape[0])

    def initialize_from(self, x: Tensor) -> None:
        """Set shift and scale."""
        mean = x.mean(0)
        std = (x - mean).square().mean(0).sqrt()
        self.bias.copy_(-mean)
        self.log_scale.copy_(-(std + STD_FLOOR).log() / LOGSCALE_FACTOR)

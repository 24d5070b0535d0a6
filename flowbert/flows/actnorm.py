"""Activation normalization with a data-dependent initialization."""

from typing import Any

import torch
from torch import Tensor, nn

from flowbert.errors import UserError
from flowbert.flows.bijection import Bijection

LOGSCALE_FACTOR = 3.0
"""Gradients and weight decay act on s = log(scale) / 3, as in the official code."""

STD_FLOOR = 1e-6
"""Keeps the scale of a constant dimension finite."""


class ActNorm(Bijection):
    r"""Activation normalization: :math:`z = (x + b) e^{3 s}`, :math:`\log|\det| = 3 \sum_d s_d`.

    It is initialized so that the output of one batch has mean 0 and deviation 1: b = -mean,
    :math:`3 s = -\log(\mathrm{std} + 10^{-6})`, with the std of the population. In training mode
    that is the first batch; in eval mode a layer that was not initialized is the identity. The
    buffer ``initialized`` is part of the state, so that a loaded layer is not initialized again.

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

    initialized: Tensor

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(dim))
        self.log_scale = nn.Parameter(torch.zeros(dim))
        self.register_buffer("initialized", torch.tensor(False))
        self._known_initialized = False

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Shift, then scale."""
        if self.training and not self._is_initialized():
            self._initialize(x)
        exponent = LOGSCALE_FACTOR * self.log_scale
        return (x + self.bias) * exponent.exp(), exponent.sum().expand(x.shape[0])

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Undo the scale, then the shift."""
        exponent = LOGSCALE_FACTOR * self.log_scale
        return z * (-exponent).exp() - self.bias, -exponent.sum().expand(z.shape[0])

    def restart(self) -> None:
        """Let the next batch in training mode set shift and scale anew."""
        self.initialized.fill_(False)
        self._known_initialized = False

    def _is_initialized(self) -> bool:
        # Reading a buffer on a GPU waits for the device: once is enough.
        if not self._known_initialized:
            self._known_initialized = bool(self.initialized)
        return self._known_initialized

    @torch.no_grad()
    def _initialize(self, x: Tensor) -> None:
        if x.shape[0] < 2 or not torch.isfinite(x).all():
            raise UserError(
                f"actnorm: received a first batch of {x.shape[0]} row(s); "
                "expected at least 2, without NaN or infinity"
            )
        mean = x.mean(0)
        std = (x - mean).square().mean(0).sqrt()
        self.bias.copy_(-mean)
        self.log_scale.copy_(-(std + STD_FLOOR).log() / LOGSCALE_FACTOR)
        self.initialized.fill_(True)

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        self._known_initialized = False
        super()._load_from_state_dict(*args, **kwargs)

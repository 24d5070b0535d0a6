"""Activation normalization with a data-dependent start."""

from typing import Any

import torch
from torch import Tensor, nn

from flowbert.errors import UserError
from flowbert.flows.bijection import Bijection

LOGSCALE_FACTOR = 3.0


class ActNorm(Bijection):
    r"""Activation normalization: :math:`z = (x + b) \exp(\kappa s)`, :math:`\log|\det| = \kappa \sum_d s_d`.

    The start makes every dimension of one batch have mean 0 and standard deviation 1:
    :math:`b = -\mathrm{mean}`, :math:`\kappa s = -\log(\mathrm{std} + \epsilon)`, std of the population. In training
    mode the first batch is that batch; in eval mode a layer that has not started is the identity. The buffer
    ``initialized`` is part of the state, so a reloaded layer does not start again.

    References:
        Glow: Generative Flow with Invertible 1x1 Convolutions (Kingma and Dhariwal, 2018). https://arxiv.org/abs/1807.03039

    Args:
        dim: Vector size D.
        logscale_factor: :math:`\kappa`. Gradients and weight decay act on s, so it multiplies the step of the scale.
        std_floor: :math:`\epsilon`, keeps the scale of a constant dimension finite.

    Shapes:
        x, z: ``(B, D)``; log_det: ``(B,)``, nats.

    Raises:
        UserError: If the starting batch has fewer than 2 rows or holds NaN or infinity.

    Example:
        >>> import torch
        >>> from flowbert.flows import ActNorm
        >>> z, log_det = ActNorm(1)(torch.tensor([[1.0], [3.0], [5.0]]))
        >>> z.mean().item(), round(z.std(correction=0).item(), 4)
        (0.0, 1.0)
    """

    initialized: Tensor

    def __init__(self, dim: int, logscale_factor: float = LOGSCALE_FACTOR, std_floor: float = 1e-6) -> None:
        super().__init__()
        self.logscale_factor = logscale_factor
        self.std_floor = std_floor
        self.bias = nn.Parameter(torch.zeros(dim))
        self.log_scale = nn.Parameter(torch.zeros(dim))
        self.register_buffer("initialized", torch.tensor(False))
        self._known_initialized = False

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Shift and scale; in training mode start from ``x`` if not yet started."""
        if self.training and not self._is_initialized():
            self._start(x)
        exponent = self.logscale_factor * self.log_scale
        return (x + self.bias) * exponent.exp(), exponent.sum().expand(x.shape[0])

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Undo the scale, then the shift."""
        exponent = self.logscale_factor * self.log_scale
        return z * (-exponent).exp() - self.bias, -exponent.sum().expand(z.shape[0])

    def restart(self) -> None:
        """Forget the start: the next batch in training mode sets shift and scale anew."""
        self.initialized.fill_(False)
        self._known_initialized = False

    def _is_initialized(self) -> bool:
        # Reading a buffer on a GPU waits for the device, so a start that was seen once is remembered here.
        if not self._known_initialized:
            self._known_initialized = bool(self.initialized)
        return self._known_initialized

    @torch.no_grad()
    def _start(self, x: Tensor) -> None:
        x = x.to(self.bias.dtype)
        if x.shape[0] < 2:
            raise UserError(
                f"actnorm starts from the spread of a batch: {x.shape[0]} row(s) received, allowed: 2 or more"
            )
        if not torch.isfinite(x).all():
            raise UserError("actnorm starts from a finite batch: NaN or infinity received")
        mean = x.mean(0)
        std = (x - mean).square().mean(0).sqrt()
        self.bias.copy_(-mean)
        self.log_scale.copy_(-(std + self.std_floor).log() / self.logscale_factor)
        self.initialized.fill_(True)

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        self._known_initialized = False
        super()._load_from_state_dict(*args, **kwargs)

"""The contract of every flow layer, and the chain of layers."""

from collections.abc import Mapping
from typing import cast

from torch import Tensor, nn


class Bijection(nn.Module):
    """An invertible map on vectors: ``forward`` takes data to latent, ``inverse`` takes latent to data.

    Both return ``(tensor, log_det)`` where ``log_det`` is ``log |det|`` of the Jacobian of the direction computed, so
    the two directions' values at the same point sum to zero.

    Shapes:
        x, z: ``(B, D)``; log_det: ``(B,)``, nats.  B: batch, D: vector size.
    """

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Map data ``x`` to ``(z, log |det dz/dx|)``."""
        raise NotImplementedError(f"{type(self).__name__} does not define forward")

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Map latent ``z`` to ``(x, log |det dx/dz|)``."""
        raise NotImplementedError(f"{type(self).__name__} does not define inverse")


class Chain(Bijection):
    r"""Composition of named bijections: :math:`z = f_n(\dots f_1(x))`, log-dets added.

    Args:
        bijections: Name to bijection, first applied first. The names appear in the state and in error messages.

    Shapes:
        x, z: ``(B, D)``; log_det: ``(B,)``, nats.

    Example:
        >>> import torch
        >>> from flowbert.flows import Chain, Reverse
        >>> z, log_det = Chain({"there": Reverse(2), "back": Reverse(2)})(torch.tensor([[1.0, 2.0]]))
        >>> z, log_det
        (tensor([[1., 2.]]), tensor([0.]))
    """

    def __init__(self, bijections: Mapping[str, Bijection]) -> None:
        super().__init__()
        for name, bijection in bijections.items():
            self.add_module(name, bijection)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Apply the bijections in order."""
        total = x.new_zeros(x.shape[0])
        for bijection in self.children():
            x, log_det = bijection(x)
            total = total + log_det
        return x, total

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Apply the inverses in reverse order."""
        total = z.new_zeros(z.shape[0])
        for bijection in reversed(list(self.children())):
            z, log_det = cast(Bijection, bijection).inverse(z)
            total = total + log_det
        return z, total

"""The contract of every flow layer, and the chain of layers."""

from collections.abc import Callable, Mapping
from typing import Self, cast

import torch
from torch import Tensor, nn


class FullPrecision(nn.Module):
    """A module whose numbers never go below float32, whatever it or its owner is told (``half()``, ``bfloat16()``).

    A likelihood is a sum over dimensions and layers: in half precision it is off by whole nats.
    """

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        # Every way to convert a module goes through here.
        def kept(tensor: Tensor) -> Tensor:
            moved = fn(tensor)
            lowered = moved.is_floating_point() and moved.dtype.itemsize < torch.float32.itemsize
            return tensor.to(moved.device) if lowered else moved

        super()._apply(kept, recurse)  # type: ignore[no-untyped-call]
        return self


class Bijection(FullPrecision):
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

"""The contract of every flow layer, and the composition of layers."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Self, cast

from torch import Tensor, nn


class FullPrecision(nn.Module):
    """A module that keeps float32 or float64 when ``half()`` or ``bfloat16()`` is called.

    A log-det is a sum over hundreds of dimensions, which half precision rounds to whole numbers.
    """

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        # Every conversion of a module goes through this method of torch.
        def convert(tensor: Tensor) -> Tensor:
            converted = fn(tensor)
            is_half = converted.is_floating_point() and converted.dtype.itemsize < 4
            return tensor.to(converted.device) if is_half else converted

        super()._apply(convert, recurse)  # type: ignore[no-untyped-call]
        return self


class Bijection(FullPrecision, ABC):
    """An invertible map of vectors.

    Shapes:
        x, z: ``(B, D)``; log_det: ``(B,)``, nats.  B: batch, D: embedding size.
    """

    @abstractmethod
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Map data ``x`` to ``(z, log |det dz/dx|)``."""

    @abstractmethod
    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Map latent ``z`` to ``(x, log |det dx/dz|)``."""


class Composition(Bijection):
    r"""Composition of named bijections: :math:`z = f_n(\ldots f_1(x))`, log-dets added.

    Args:
        bijections: The bijections in order, by their names in the state.

    Example:
        >>> import torch
        >>> from flowbert.flows import Reverse
        >>> both = Composition({"a": Reverse(3), "b": Reverse(3)})
        >>> both(torch.tensor([[1.0, 2.0, 3.0]]))[0]
        tensor([[1., 2., 3.]])
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

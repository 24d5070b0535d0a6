"""Priors: densities of the latents."""

import math
from abc import ABC, abstractmethod

from torch import Tensor, nn

from flowbert.registry import Registry


class Prior(nn.Module, ABC):
    """A density of latents z; its parameters, if it has any, are trained with the flow.

    Args:
        dim: Vector size D.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    @abstractmethod
    def log_prob(self, z: Tensor) -> Tensor:
        """Log density of latents ``(B, D)`` in nats, ``(B,)``."""


PRIORS: Registry[type[Prior]] = Registry("prior", base=Prior, given=("dim",))
"""Priors by name; they take ``dim``, and further options."""


@PRIORS.register("normal")
class StandardNormal(Prior):
    r"""Independent normal latents: :math:`\log N(z; 0, I)`.

    Example:
        >>> import torch
        >>> round(StandardNormal(2).log_prob(torch.zeros(1, 2)).item(), 4)
        -1.8379
    """

    def log_prob(self, z: Tensor) -> Tensor:
        """Log density of latents ``(B, D)`` in nats, ``(B,)``."""
        return -0.5 * (z.square().sum(1) + self.dim * math.log(2 * math.pi))

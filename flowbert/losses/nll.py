"""Negative log-likelihood of a flow with a standard normal prior."""

import math
from typing import TypeVar

from torch import Tensor

TensorOrFloat = TypeVar("TensorOrFloat", Tensor, float)


def nll(z: Tensor, log_det: Tensor) -> Tensor:
    r"""Negative log-likelihood in nats: :math:`-\log N(z; 0, I) - \log|\det dz/dx|`.

    Args:
        z: Latents, ``(B, D)``.
        log_det: Log-determinants of the map from data to latent, ``(B,)``.

    Returns:
        ``(B,)``, nats.

    Example:
        >>> import torch
        >>> nll(torch.zeros(1, 2), torch.zeros(1))
        tensor([1.8379])
    """
    return 0.5 * (z.square().sum(1) + z.shape[1] * math.log(2 * math.pi)) - log_det


def bits_per_dim(nats: TensorOrFloat, dim: int) -> TensorOrFloat:
    r"""Bits per dimension: :math:`\mathrm{nats} / (D \ln 2)`.

    Args:
        nats: Negative log-likelihood in nats, any shape.
        dim: Vector size D.

    Example:
        >>> round(bits_per_dim(math.log(2) * 6, dim=3), 6)
        2.0
    """
    return nats / (dim * math.log(2))

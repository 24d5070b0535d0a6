"""Coupling layers: one half of the dimensions is changed by a function of the other half.

If the number of dimensions is odd, the first half, which stays unchanged, has one more.
"""

from abc import abstractmethod
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from flowbert.flows.bijection import Bijection
from flowbert.flows.data_initialized import LOGSCALE_FACTOR, ActNorm
from flowbert.registry import Registry
from flowbert.seeding import Stream

WEIGHT_STD = 0.05
"""Standard deviation of the initial hidden weights."""

COUPLINGS: Registry[type[Bijection]] = Registry(
    "coupling", base=Bijection, given=("dim", "hidden_dim", "seed")
)
"""Couplings by name; they take ``dim``, ``hidden_dim`` and ``seed``, and further options."""


class CouplingNet(nn.Module):
    r"""The network of a coupling, with two hidden layers.

    dense - actnorm - relu - dense - actnorm - relu - :math:`(h W + c) \exp(3 t)`. The hidden layers
    have no bias; the last one is initialized with zeros, so that a coupling is near the identity.

    Args:
        in_dim: Input size I.
        hidden_dim: Width of both hidden layers.
        out_dim: Output size O.
        seed: Seed of the hidden weights.

    Shapes:
        x: ``(B, I)``; output: ``(B, O)``.
    """

    def __init__(
        self, in_dim: int, hidden_dim: int, out_dim: int, seed: int = 0
    ) -> None:
        super().__init__()
        generator = Stream(seed, "coupling").generator()
        weight_1 = torch.randn(in_dim, hidden_dim, generator=generator)
        weight_2 = torch.randn(hidden_dim, hidden_dim, generator=generator)
        self.weight_1 = nn.Parameter(WEIGHT_STD * weight_1)
        self.actnorm_1 = ActNorm(hidden_dim)
        self.weight_2 = nn.Parameter(WEIGHT_STD * weight_2)
        self.actnorm_2 = ActNorm(hidden_dim)
        self.weight_out = nn.Parameter(torch.zeros(hidden_dim, out_dim))
        self.bias_out = nn.Parameter(torch.zeros(out_dim))
        self.log_scale_out = nn.Parameter(torch.zeros(out_dim))

    def forward(self, x: Tensor) -> Tensor:
        """Compute the raw output of the coupling."""
        hidden = self.actnorm_1(x @ self.weight_1)[0].relu()
        hidden = self.actnorm_2(hidden @ self.weight_2)[0].relu()
        scale = (LOGSCALE_FACTOR * self.log_scale_out).exp()
        return torch.addmm(self.bias_out, hidden, self.weight_out) * scale


class Coupling(Bijection):
    r"""Base of the couplings: :math:`z = [x_a, (x_b + h) \odot e^s]`, h and s functions of x_a.

    A subclass sets ``outputs``, the number of outputs of its network for each dimension of x_b, and
    computes h and s from them; the log-det is :math:`\sum s`.

    Args:
        dim: Vector size D; at least 2.
        hidden_dim: Width of the network.
        seed: Seed of the network's hidden weights.
    """

    outputs: ClassVar[int]

    def __init__(self, dim: int, hidden_dim: int, seed: int = 0) -> None:
        super().__init__()
        changed = dim // 2
        self.net = CouplingNet(dim - changed, hidden_dim, self.outputs * changed, seed)

    @abstractmethod
    def shift_and_log_scale(self, output: Tensor) -> tuple[Tensor, Tensor]:
        """Shift h, ``(B, D // 2)``, and log-scale s, as h or ``(B, 1)``, from the output."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Shift, then scale the second half."""
        fixed, changed = x.chunk(2, dim=1)
        shift, log_scale = self.shift_and_log_scale(self.net(fixed))
        changed = (changed + shift) * log_scale.exp()
        return torch.cat([fixed, changed], dim=1), log_scale.sum(1)

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Undo the scale, then the shift."""
        fixed, changed = z.chunk(2, dim=1)
        shift, log_scale = self.shift_and_log_scale(self.net(fixed))
        changed = changed * (-log_scale).exp() - shift
        return torch.cat([fixed, changed], dim=1), -log_scale.sum(1)


@COUPLINGS.register("additive")
class AdditiveCoupling(Coupling):
    r"""Additive coupling: :math:`z = [x_a, x_b + g(x_a)]`, log-det 0.

    References:
        NICE: Non-linear Independent Components Estimation (Dinh et al., 2014).
        https://arxiv.org/abs/1410.8516

    Example:
        >>> z, log_det = AdditiveCoupling(4, 8)(torch.rand(5, 4))
        >>> log_det.shape
        torch.Size([5])
    """

    outputs = 1

    def shift_and_log_scale(self, output: Tensor) -> tuple[Tensor, Tensor]:
        """The output as the shift, and scale 1."""
        return output, output.new_zeros(output.shape[0], 1)


@COUPLINGS.register("affine")
class AffineCoupling(Coupling):
    r"""Affine coupling: :math:`z = [x_a, (x_b + h) \odot \sigma(r + 2)]`.

    The network's even outputs are the shift h, its odd outputs r; the log-det is
    :math:`\sum \log\sigma(r + 2)`.

    References:
        Glow: Generative Flow with Invertible 1x1 Convolutions (Kingma and Dhariwal, 2018).
        https://arxiv.org/abs/1807.03039

    Example:
        >>> coupling, x = AffineCoupling(4, 8), torch.rand(5, 4)
        >>> torch.allclose(coupling.inverse(coupling(x)[0])[0], x, atol=1e-6)
        True
    """

    outputs = 2

    def shift_and_log_scale(self, output: Tensor) -> tuple[Tensor, Tensor]:
        """Even outputs as the shift, log-sigmoids of the odd ones as the log-scale."""
        return output[:, 0::2], logsigmoid(output[:, 1::2] + 2.0)

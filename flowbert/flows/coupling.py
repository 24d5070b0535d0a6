"""Coupling layers: one half of the dimensions is changed by a function of the other half.

Of an odd number of dimensions the first half, which passes unchanged, has one more.
"""

from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from flowbert.errors import UserError
from flowbert.flows.actnorm import LOGSCALE_FACTOR, ActNorm
from flowbert.flows.bijection import Bijection
from flowbert.seeding import Stream

WEIGHT_STD = 0.05


class CouplingNet(nn.Module):
    r"""The network inside a coupling: dense - actnorm - relu - dense - actnorm - relu - :math:`(h W + c) \exp(3 t)`.

    The hidden dense layers have no bias and start from :math:`N(0, 0.05^2)`; the last starts at zero, so a coupling
    starts as (almost) the identity.

    Args:
        in_dim: Input size I.
        hidden_dim: Width of both hidden layers.
        out_dim: Output size O.
        seed: Seed of the hidden weights.

    Shapes:
        input: ``(B, I)``; output: ``(B, O)``.
    """

    def __init__(self, in_dim: int, hidden_dim: int, out_dim: int, seed: int = 0) -> None:
        super().__init__()
        generator = Stream(seed, "coupling").generator()
        self.weight_1 = nn.Parameter(WEIGHT_STD * torch.randn(in_dim, hidden_dim, generator=generator))
        self.actnorm_1 = ActNorm(hidden_dim)
        self.weight_2 = nn.Parameter(WEIGHT_STD * torch.randn(hidden_dim, hidden_dim, generator=generator))
        self.actnorm_2 = ActNorm(hidden_dim)
        self.weight_out = nn.Parameter(torch.zeros(hidden_dim, out_dim))
        self.bias_out = nn.Parameter(torch.zeros(out_dim))
        self.log_scale_out = nn.Parameter(torch.zeros(out_dim))

    def forward(self, x: Tensor) -> Tensor:
        """Compute the coupling's raw output."""
        hidden = self.actnorm_1(x @ self.weight_1)[0].relu()
        return self.output(self.actnorm_2(hidden @ self.weight_2)[0].relu())

    def output(self, hidden: Tensor) -> Tensor:
        """The last layer alone, ``(B, hidden_dim)`` to ``(B, O)``."""
        return torch.addmm(self.bias_out, hidden, self.weight_out) * (LOGSCALE_FACTOR * self.log_scale_out).exp()


class _Coupling(Bijection):
    """A network from one half of the dimensions to some outputs for each of the other half."""

    outputs: ClassVar[int]

    def __init__(self, dim: int, hidden_dim: int, seed: int = 0) -> None:
        super().__init__()
        if dim < 2:
            raise UserError(f"coupling halves its vector: dim {dim} received, allowed: at least 2")
        changed = dim // 2
        self.net = CouplingNet(dim - changed, hidden_dim, self.outputs * changed, seed)


class AdditiveCoupling(_Coupling):
    r"""Additive coupling: :math:`z = [x_a, x_b + g(x_a)]`, log-det 0.

    References:
        NICE: Non-linear Independent Components Estimation (Dinh et al., 2014). https://arxiv.org/abs/1410.8516

    Args:
        dim: Vector size D; at least 2.
        hidden_dim: Width of the network g.
        seed: Seed of g's hidden weights.

    Shapes:
        x, z: ``(B, D)``; log_det: ``(B,)``, nats.

    Raises:
        UserError: If ``dim`` is below 2; the message gives the value received.

    Example:
        >>> import torch
        >>> from flowbert.flows import AdditiveCoupling
        >>> z, log_det = AdditiveCoupling(4, 8)(torch.rand(5, 4))
        >>> log_det.shape
        torch.Size([5])
    """

    outputs = 1

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Add the shift to the second half."""
        fixed, changed = x.chunk(2, dim=1)
        return torch.cat([fixed, changed + self.net(fixed)], dim=1), x.new_zeros(x.shape[0])

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Subtract the same shift."""
        fixed, changed = z.chunk(2, dim=1)
        return torch.cat([fixed, changed - self.net(fixed)], dim=1), z.new_zeros(z.shape[0])


class AffineCoupling(_Coupling):
    r"""Affine coupling: :math:`z = [x_a, (x_b + h) \odot \sigma(r + 2)]`, log-det :math:`\sum \log\sigma(r + 2)`.

    The network's even outputs are the shift h, its odd outputs r.

    References:
        Glow: Generative Flow with Invertible 1x1 Convolutions (Kingma and Dhariwal, 2018). https://arxiv.org/abs/1807.03039

    Args:
        dim: Vector size D; at least 2.
        hidden_dim: Width of the network.
        seed: Seed of the network's hidden weights.

    Shapes:
        x, z: ``(B, D)``; log_det: ``(B,)``, nats.

    Raises:
        UserError: If ``dim`` is below 2; the message gives the value received.

    Example:
        >>> import torch
        >>> from flowbert.flows import AffineCoupling
        >>> coupling, x = AffineCoupling(4, 8), torch.rand(5, 4)
        >>> torch.allclose(coupling.inverse(coupling(x)[0])[0], x, atol=1e-6)
        True
    """

    outputs = 2

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Shift, then scale the second half."""
        fixed, changed = x.chunk(2, dim=1)
        shift, log_scale = self._shift_and_log_scale(fixed)
        return torch.cat([fixed, (changed + shift) * log_scale.exp()], dim=1), log_scale.sum(1)

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Undo the scale, then the shift."""
        fixed, changed = z.chunk(2, dim=1)
        shift, log_scale = self._shift_and_log_scale(fixed)
        return torch.cat([fixed, changed * (-log_scale).exp() - shift], dim=1), -log_scale.sum(1)

    def _shift_and_log_scale(self, fixed: Tensor) -> tuple[Tensor, Tensor]:
        output = self.net(fixed)
        return output[:, 0::2], logsigmoid(output[:, 1::2] + 2.0)


COUPLINGS: dict[str, Callable[[int, int, int], Bijection]] = {"additive": AdditiveCoupling, "affine": AffineCoupling}
"""What makes each coupling of vector size D, network width and seed."""

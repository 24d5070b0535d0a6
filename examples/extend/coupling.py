"""A coupling: scales that stay within limits.

python train.py fit --config quickstart --model.coupling examples.extend.coupling.Bounded:limit=2
"""

from torch import Tensor

from flowbert.errors import UserError
from flowbert.flows.coupling import Coupling


class Bounded(Coupling):
    r"""Affine coupling with the scale :math:`e^{c \tanh(r / c)}`, between e^-c and e^c.

    References:
        Density Estimation using Real NVP (Dinh et al., 2017). https://arxiv.org/abs/1605.08803

    Args:
        dim: Vector size.
        hidden_dim: Width of the network.
        seed: Seed of its weights.
        limit: c, above 0.
    """

    outputs = 2

    def __init__(self, dim: int, hidden_dim: int, seed: int = 0, limit: float = 1.0):
        super().__init__(dim, hidden_dim, seed)
        if not limit > 0:
            raise UserError(argument="limit", received=limit, expected="above 0")
        self.limit = limit

    def shift_and_log_scale(self, output: Tensor) -> tuple[Tensor, Tensor]:
        """Even outputs, and odd ones within the limit."""
        return output[:, 0::2], self.limit * (output[:, 1::2] / self.limit).tanh()

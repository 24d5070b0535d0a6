"""A prior: latents with heavy tails, so that outliers move the flow less.

python train.py fit --config quickstart --model.prior examples.extend.prior.StudentT:degrees=5
"""

import math

from torch import Tensor

from flowbert.errors import UserError
from flowbert.flows import Prior


class StudentT(Prior):
    r"""Multivariate t-distribution with :math:`\nu` degrees of freedom and the scale I.

    References:
        Robust model training and generalisation with Studentising flows (Alexanderson and Henter,
        2020). https://arxiv.org/abs/2006.06599

    Args:
        dim: Vector size D.
        degrees: nu, above 0.
    """

    def __init__(self, dim: int, degrees: float = 10.0):
        super().__init__(dim)
        if not degrees > 0:
            raise UserError(argument="degrees", received=degrees, expected="above 0")
        self.degrees = degrees

    def log_prob(self, z: Tensor) -> Tensor:
        """Log density in nats."""
        nu, half = self.degrees, (self.degrees + self.dim) / 2
        scale = math.lgamma(half) - math.lgamma(nu / 2)
        scale -= self.dim / 2 * math.log(nu * math.pi)
        return scale - half * (z.square().sum(1) / nu).log1p()

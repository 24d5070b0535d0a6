"""A map: the first principal directions are damped rather than removed.

python train.py compare --methods raw,nulling-3,examples.extend.map.Damping-3:factor=0.2
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from flowbert.maps import AffineMap, Moments


@dataclass(eq=False, repr=False)
class Damping(AffineMap):
    r"""Scaling of k directions: :math:`y = (x - \mu)(I - (1 - f) U_{:, :k} U_{:, :k}^T)`.

    Args:
        n_directions: Number of directions k.
        factor: f, above 0; 1 changes nothing.
    """

    size_parameter = "n_directions"
    n_directions: int = 1
    factor: float = 0.5

    def output_dim(self, dim: int) -> int:
        """Check the parameters; the size of the vectors stays."""
        self.check_count("n_directions", dim)
        self.require("factor", self.factor > 0, "above 0")
        return dim

    def solve(self, moments: Moments) -> tuple[Tensor, Tensor]:
        """Center and weight."""
        top = moments.eigen()[1][:, : self.n_directions]
        identity = torch.eye(moments.dim, dtype=torch.float64)
        return moments.mean, identity - (1 - self.factor) * top @ top.T

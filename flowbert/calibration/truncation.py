"""Truncation: the first dimensions alone."""

from dataclasses import dataclass

import torch

from flowbert.calibration.base import AffineMap, Calibration, at_most
from flowbert.calibration.moments import Moments


@dataclass(eq=False)
class Truncation(Calibration, method="truncation"):
    """The first k dimensions as they are: what is given up without any map, beside PCA and whitening of k directions.

    Encoders that were trained for it (Matryoshka representations) lose little; others have no order of dimensions.

    References:
        Matryoshka Representation Learning (Kusupati et al., 2022). https://arxiv.org/abs/2205.13147

    Args:
        n_components: How many dimensions k to keep, the first ones; None keeps all.

    Shapes:
        x: ``(N, D)``; transformed: ``(N, k)``.  N: sentences, D: embedding size, k: dimensions kept.

    Raises:
        UserError: If an argument is out of range, or ``n_components`` exceeds D.

    Example:
        >>> Truncation(n_components=2).fit(torch.tensor([[1.0, 2.0, 3.0]])).transform(torch.tensor([[4.0, 5.0, 6.0]]))
        tensor([[4., 5.]])
    """

    n_components: int | None = None

    size_option = "n_components"

    def output_dim(self, dim: int) -> int:
        """Number of dimensions wanted."""
        return at_most(dim, "n_components", self.n_components)

    def solve(self, moments: Moments) -> AffineMap:
        """No centre, and the first columns of the identity matrix."""
        columns = torch.eye(moments.dim, dtype=torch.float64)[:, : self.output_dim(moments.dim)]
        return AffineMap(torch.zeros_like(moments.mean), columns, columns.T)

"""Simple maps: raw, centering, mean removal, standardization, truncation."""

from dataclasses import dataclass

import torch
from torch import Tensor

from flowbert.maps.base import MAPS, AffineMap
from flowbert.maps.gaussian import GaussianMap
from flowbert.vectors.moments import Moments

# Relative to the largest standard deviation: the resolution of float32 embeddings.
_SMALLEST_STD = 1e-7


@MAPS.register("raw")
class Raw(AffineMap):
    """The identity: the baseline of every map."""

    def solve(self, moments: Moments) -> tuple[Tensor, Tensor]:
        """The identity."""
        identity = torch.eye(moments.dim, dtype=torch.float64)
        return torch.zeros(moments.dim, dtype=torch.float64), identity

    def _apply(self, rows: Tensor) -> Tensor:
        return rows

    _invert = _apply


@MAPS.register("standardization")
class Standardization(GaussianMap):
    r"""Standard normalization :math:`y_j = (x_j - \mu_j) / \sigma_j`, divisor N - 1.

    Dimensions that do not vary are only centred.

    References:
        On the Sentence Embeddings from Pre-trained Language Models (Li et al., 2020), table 5.
        https://arxiv.org/abs/2011.05864
    """

    def solve(self, moments: Moments) -> tuple[Tensor, Tensor]:
        """The standardizing map."""
        std = standard_deviations(moments)
        return moments.mean, torch.diag(1 / std)


def standard_deviations(moments: Moments) -> Tensor:
    """Standard deviation of each dimension ``(D,)``; 1 where a dimension does not vary."""
    std = moments.covariance().diagonal().clamp_min(0.0).sqrt()
    constant = std <= _SMALLEST_STD * std.max()
    return torch.where(constant, torch.ones_like(std), std)


@MAPS.register("truncation")
@dataclass(eq=False, repr=False)
class Truncation(AffineMap):
    """The first k dimensions, unchanged; it learns nothing from the rows.

    Args:
        n_components: Number of dimensions k; None for all.
    """

    size_parameter = "n_components"

    n_components: int | None = None

    def output_dim(self, dim: int) -> int:
        """Check the parameter, and return the number of dimensions."""
        return self.check_count("n_components", dim)

    def solve(self, moments: Moments) -> tuple[Tensor, Tensor]:
        """The first columns of the identity."""
        columns = torch.eye(moments.dim, dtype=torch.float64)[
            :, : self.output_dim(moments.dim)
        ]
        return torch.zeros(moments.dim, dtype=torch.float64), columns


@MAPS.register("centering")
class Centering(AffineMap):
    r"""Mean 0: :math:`y = x - \mu`.

    R1 of the paper, which normalizes the rows to unit length first; this map does not.

    References:
        Correcting Mean Bias in Text Embeddings (Ren et al., 2025).
        https://arxiv.org/abs/2511.11041
    """

    def solve(self, moments: Moments) -> tuple[Tensor, Tensor]:
        """Mean and identity."""
        identity = torch.eye(moments.dim, dtype=torch.float64)
        return moments.mean, identity


@MAPS.register("mean-removal")
class MeanRemoval(AffineMap):
    r"""Removal of the mean direction :math:`y = x - (x^T m)\, m`.

    R2 of the paper: :math:`m` is the normalized mean of the unit-length rows. Nothing is
    subtracted, so the cosines are those of unit-length rows.

    References:
        Correcting Mean Bias in Text Embeddings (Ren et al., 2025).
        https://arxiv.org/abs/2511.11041
    """

    def solve(self, moments: Moments) -> tuple[Tensor, Tensor]:
        """The projection onto all other directions."""
        direction = moments.mean_direction
        identity = torch.eye(moments.dim, dtype=torch.float64)
        projection = identity - torch.outer(direction, direction)
        return torch.zeros_like(direction), projection

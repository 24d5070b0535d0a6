"""Correction of the mean that all embeddings share: it is subtracted, or its direction removed."""

import torch
from torch import Tensor

from flowbert.maps.base import MAPS, AffineMap
from flowbert.vectors.moments import Moments


@MAPS.register("centering")
class Centering(AffineMap):
    r"""Mean 0: :math:`y = x - \mu`.

    R1 of the paper, which first normalizes the rows to unit length; here they keep their norms.

    References:
        Correcting Mean Bias in Text Embeddings (Ren et al., 2025).
        https://arxiv.org/abs/2511.11041
    """

    def solve(self, moments: Moments) -> tuple[Tensor, Tensor, Tensor]:
        """The identity around the mean."""
        identity = torch.eye(moments.dim, dtype=torch.float64)
        return moments.mean, identity, identity


@MAPS.register("mean-removal")
class MeanRemoval(AffineMap):
    r"""Removal of the mean direction :math:`y = x - (x^T m)\, m`.

    R2 of the paper: :math:`m` is the normalized mean of the unit-length rows. Nothing is
    subtracted, so the cosines are those of unit-length rows.

    References:
        Correcting Mean Bias in Text Embeddings (Ren et al., 2025).
        https://arxiv.org/abs/2511.11041
    """

    min_features = 2

    def solve(self, moments: Moments) -> tuple[Tensor, Tensor, Tensor]:
        """The projection onto all other directions."""
        direction = moments.mean_direction
        identity = torch.eye(moments.dim, dtype=torch.float64)
        projection = identity - torch.outer(direction, direction)
        return torch.zeros_like(direction), projection, projection

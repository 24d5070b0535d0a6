"""Correction of the mean that all embeddings share: it is subtracted, or its direction removed."""

import torch
from torch import Tensor

from flowbert.maps.base import MAPS, AffineMap
from flowbert.vectors.moments import Moments


@MAPS.register("centering")
class Centering(AffineMap):
    r"""Mean 0: :math:`y = x - \mu`.

    R1 of the paper, whose rows have length 1; here they stay as long as they are.

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

    R2 of the paper: :math:`m` is the mean of the rows at length 1, scaled to length 1. Nothing is
    subtracted, so that cosines are those of rows at length 1.

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

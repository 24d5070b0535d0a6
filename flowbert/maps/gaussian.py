"""Affine maps that model a Gaussian."""

import math
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from flowbert.maps.base import AffineMap, double_blocks

RANK_TOLERANCE = 1e-10
"""Share of the largest scale of a map below which a direction counts as removed."""


class GaussianMap(AffineMap):
    r"""An affine map of Gaussian rows to standard normal latents :math:`z = (x - \mu) W`."""

    def score_samples(self, X: Any) -> NDArray[Any]:
        r"""Log density :math:`\log N(x; \mu, (W W^T)^{-1})` of each row in nats: ``(N,)``, float64.

        If the map keeps fewer directions, the density of the rows in these directions.
        """
        rows = self._rows(X)
        scales: Tensor = torch.linalg.svdvals(self.weight_)
        scales = scales[scales > RANK_TOLERANCE * scales.max()]
        largest = scales.log().sum() - len(scales) / 2 * math.log(2 * math.pi)
        squares = [
            self._apply(x).square().sum(dim=1).cpu() for x in double_blocks(rows)
        ]
        scores: NDArray[Any] = (largest - torch.cat(squares) / 2).numpy()
        return scores

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log density of the rows in nats; y is ignored."""
        return float(self.score_samples(X).mean())

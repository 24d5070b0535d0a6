"""The embeddings as they are: the row every method is compared with."""

import torch
from torch import Tensor

from flowbert.calibration.base import AffineMap, Calibration, Rows, checked_rows
from flowbert.calibration.moments import Moments


class Identity(Calibration, method="raw"):
    """No calibration, :math:`y = x`: there is nothing to fit.

    Shapes:
        x, transformed: ``(N, D)``.  N: sentences, D: embedding size.

    Example:
        >>> Identity().transform(torch.tensor([[1.0, 2.0]])).tolist()
        [[1.0, 2.0]]
    """

    def solve(self, moments: Moments) -> AffineMap:
        """No centre, and the identity matrix."""
        identity = torch.eye(moments.dim, dtype=torch.float64)
        return AffineMap(torch.zeros_like(moments.mean), identity, identity)

    def transform(self, x: Rows, *, dtype: torch.dtype = torch.float32) -> Tensor:
        """The rows themselves, in ``dtype``."""
        return checked_rows(x, self.dim).to(dtype)

    def inverse_transform(self, y: Rows, *, dtype: torch.dtype = torch.float32) -> Tensor:
        """The rows themselves, in ``dtype``."""
        return self.transform(y, dtype=dtype)

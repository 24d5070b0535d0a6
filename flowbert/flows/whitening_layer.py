"""Whitening as a layer of a flow, from the mean and covariance of the data."""

import torch
from torch import Tensor

from flowbert.flows.bijection import DataInitialized

SHRINKAGE = 1e-4
"""Weight of the mean variance in the covariance: no direction has the variance 0."""


class WhiteningLayer(DataInitialized):
    r"""Whitening: :math:`z = (x - \mu) W`, :math:`\log|\det| = \sum_d \log W_{dd}`.

    W is upper triangular with a positive diagonal, and :math:`W W^T` is the inverse of the shrunk
    covariance :math:`(1 - s) \Sigma + s \bar\lambda I`, s being 1e-4 and :math:`\bar\lambda` the
    mean variance. A flow that begins with it has the density of a Gaussian before it is trained.
    It stays as it is initialized; the mixings behind it are trained.

    Args:
        dim: Vector size D.

    Raises:
        UserError: If the first batch has fewer than 2 rows or holds NaN or infinity.

    Example:
        >>> x = torch.randn(500, 2, generator=torch.Generator().manual_seed(0)) * 3 + 5
        >>> z, log_det = WhiteningLayer(2)(x)
        >>> torch.allclose(z.T.cov(), torch.eye(2), atol=1e-3)
        True
    """

    mean: Tensor
    weight: Tensor

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("weight", torch.eye(dim))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Centre, then whiten."""
        self.initialize_once(x)
        log_det = self.weight.diagonal().log().sum()
        return (x - self.mean) @ self.weight, log_det.expand(x.shape[0])

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Solve for the centred vectors, then add the mean."""
        x = torch.linalg.solve_triangular(self.weight, z, upper=True, left=False)
        log_det = self.weight.diagonal().log().sum()
        return x + self.mean, -log_det.expand(z.shape[0])

    def initialize_from(self, x: Tensor) -> None:
        """Take mean and covariance of a batch."""
        rows = x.to("cpu", torch.float64)
        self.set_moments(rows.mean(dim=0), rows.T.cov())

    def set_moments(self, mean: Tensor, covariance: Tensor) -> None:
        """Whiten vectors of this mean ``(D,)`` and covariance ``(D, D)``, float64 on the CPU.

        Vectors that are all equal are only centred.
        """
        variance = covariance.diagonal().mean()
        identity = torch.eye(len(mean), dtype=torch.float64)
        if variance > 0:
            shrunk = (1 - SHRINKAGE) * covariance + SHRINKAGE * variance * identity
            factor = torch.linalg.cholesky(shrunk)
            inverse = torch.linalg.solve_triangular(factor, identity, upper=False)
            self.weight.copy_(inverse.T)
        self.mean.copy_(mean)
        self.initialized.fill_(True)

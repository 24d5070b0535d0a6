"""Layers that are initialized with data: activation normalization and whitening."""

from abc import abstractmethod

import torch
from torch import Tensor, nn

from flowbert.flows.bijection import Bijection

LOGSCALE_FACTOR = 3.0
"""Gradients and weight decay act on s = log(scale) / 3, as in the official code."""

STD_FLOOR = 1e-6
"""Keeps the scale of a constant dimension finite."""

SHRINKAGE = 1e-4
"""Weight of the mean variance in the covariance, so that no direction has the variance 0."""


class DataInitialized(Bijection):
    """Base of the bijections that :meth:`flowbert.flows.Glow.initialize` initializes with a batch.

    Before that, the layer is the identity.
    """

    initializing = False

    @abstractmethod
    def initialize_from(self, x: Tensor) -> None:
        """Set the parameters that depend on the data from a batch ``(B, D)``."""


class ActNorm(DataInitialized):
    r"""Activation normalization: :math:`z = (x + b) e^{3 s}`, :math:`\log|\det| = 3 \sum_d s_d`.

    It is initialized so that the output of one batch has mean 0 and standard deviation 1: b =
    -mean, :math:`3 s = -\log(\mathrm{std} + 10^{-6})`, with the std of the population.

    References:
        Glow: Generative Flow with Invertible 1x1 Convolutions (Kingma and Dhariwal, 2018).
        https://arxiv.org/abs/1807.03039

    Args:
        dim: Vector size D.

    Example:
        >>> layer, x = ActNorm(1), torch.tensor([[1.0], [3.0], [5.0]])
        >>> layer.initialize_from(x)
        >>> z, log_det = layer(x)
        >>> z.mean().item(), round(z.std(correction=0).item(), 4)
        (0.0, 1.0)
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(dim))
        self.log_scale = nn.Parameter(torch.zeros(dim))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Shift, then scale."""
        if self.initializing:
            self.initialize_from(x)
        exponent = LOGSCALE_FACTOR * self.log_scale
        return (x + self.bias) * exponent.exp(), exponent.sum().expand(x.shape[0])

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Undo the scale, then the shift."""
        exponent = LOGSCALE_FACTOR * self.log_scale
        return z * (-exponent).exp() - self.bias, -exponent.sum().expand(z.shape[0])

    @torch.no_grad()
    def initialize_from(self, x: Tensor) -> None:
        """Set shift and scale."""
        mean = x.mean(0)
        std = (x - mean).square().mean(0).sqrt()
        self.bias.copy_(-mean)
        self.log_scale.copy_(-(std + STD_FLOOR).log() / LOGSCALE_FACTOR)


class WhiteningLayer(DataInitialized):
    r"""Whitening: :math:`z = (x - \mu) W`, :math:`\log|\det| = \sum_d \log W_{dd}`.

    W is upper triangular with a positive diagonal, and :math:`W W^T` is the inverse of the shrunk
    covariance :math:`(1 - s) \Sigma + s \bar\lambda I`, s being 1e-4 and :math:`\bar\lambda` the
    mean variance. A flow that begins with it has the density of a Gaussian before it is trained.
    It is not trained; the mixings after it are.

    Args:
        dim: Vector size D.

    Example:
        >>> x = torch.randn(500, 2, generator=torch.Generator().manual_seed(0)) * 3 + 5
        >>> layer = WhiteningLayer(2)
        >>> layer.initialize_from(x)
        >>> z, log_det = layer(x)
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
        if self.initializing:
            self.initialize_from(x)
        log_det = self.weight.diagonal().log().sum()
        return (x - self.mean) @ self.weight, log_det.expand(x.shape[0])

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Solve for the centred vectors, then add the mean."""
        x = torch.linalg.solve_triangular(self.weight, z, upper=True, left=False)
        log_det = self.weight.diagonal().log().sum()
        return x + self.mean, -log_det.expand(z.shape[0])

    def initialize_from(self, x: Tensor) -> None:
        """Set mean and covariance to those of a batch."""
        rows = x.to("cpu", torch.float64)
        covariance = rows.T.cov().view(x.shape[1], -1)  # of one dimension a number
        self.set_moments(rows.mean(dim=0), covariance)

    def set_moments(self, mean: Tensor, covariance: Tensor) -> None:
        """Set mean ``(D,)`` and covariance ``(D, D)`` of the vectors, float64 on the CPU.

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

"""ZCA whitening: whitening turned back to the original axes."""

from dataclasses import dataclass

from torch import Tensor

from flowbert.calibration.spectrum import RANK_TOLERANCE, Shrinkage, SpectralCalibration


@dataclass(eq=False)
class ZCA(SpectralCalibration, method="zca"):
    r"""ZCA whitening :math:`y = (x - \mu)\, U \operatorname{diag}(\lambda)^{e} U^T`, :math:`e = -1/2`.

    A rotation of :class:`~flowbert.calibration.Whitening`, so cosines between sentences are the same; it keeps the
    dimensions where they were. Directions below ``rank_tolerance`` become zero, with a warning.

    References:
        Optimal Whitening and Decorrelation (Kessy, Lewin, Strimmer, 2018). https://arxiv.org/abs/1512.00809

    Args:
        shrinkage: Weight s in [0, 1] of :math:`(1 - s) \Sigma + s \bar\lambda I`, or ``"ledoit-wolf"``.
        exponent: Power e in [-1, 0] of the eigenvalues.
        rank_tolerance: Smallest trusted eigenvalue as a share of the largest.

    Shapes:
        x, transformed: ``(N, D)``.  N: sentences, D: embedding size.

    Raises:
        UserError: If an argument is out of range.

    Example:
        >>> import torch
        >>> x = torch.randn(500, 2, generator=torch.Generator().manual_seed(0)) * torch.tensor([1.0, 5.0])
        >>> torch.allclose(torch.cov(ZCA().fit(x).transform(x).T), torch.eye(2), atol=1e-5)
        True
    """

    shrinkage: Shrinkage = 0.0
    exponent: float = -0.5
    rank_tolerance: float = RANK_TOLERANCE

    def weights(self, vectors: Tensor, scales: Tensor) -> tuple[Tensor, Tensor]:
        """The directions, scaled and turned back."""
        return (vectors * scales) @ vectors.T, (vectors / scales) @ vectors.T

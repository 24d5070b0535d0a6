"""Whitening of sentence embeddings, with shrinkage, softening and reduction of dimensions."""

from dataclasses import dataclass

from torch import Tensor

from flowbert.calibration.spectrum import RANK_TOLERANCE, Shrinkage, SpectralCalibration


@dataclass(eq=False)
class Whitening(SpectralCalibration, method="whitening"):
    r"""Whitening :math:`y = (x - \mu)\, U_{:, :k} \operatorname{diag}(\lambda_{:k})^{e}`, :math:`e = -1/2`.

    :math:`\Sigma = U \operatorname{diag}(\lambda) U^T` is the covariance with divisor N - 1, :math:`\lambda` falling.
    Directions whose eigenvalue is below ``rank_tolerance`` times the largest hold rounding noise (or nothing); they are
    cut, with a warning, because scaling noise to unit variance would let it decide the cosines.

    References:
        Whitening Sentence Representations for Better Semantics and Faster Retrieval (Su et al., 2021).
        https://arxiv.org/abs/2103.15316

        A well-conditioned estimator for large-dimensional covariance matrices (Ledoit, Wolf, 2004).
        https://doi.org/10.1016/S0047-259X(03)00096-4

    Args:
        n_components: How many directions k to keep, the largest first; None keeps all.
        shrinkage: Weight s in [0, 1] of :math:`(1 - s) \Sigma + s \bar\lambda I`, or ``"ledoit-wolf"`` for the optimal
            one. Any s > 0 makes the covariance regular, also for N <= D.
        exponent: Power e in [-1, 0] of the eigenvalues; -0.5 whitens, between -0.5 and 0 softens.
        rank_tolerance: Smallest trusted eigenvalue as a share of the largest.

    Shapes:
        x: ``(N, D)``; transformed: ``(N, k)``.  N: sentences, D: embedding size, k: directions kept.

    Raises:
        UserError: If an argument is out of range, or ``n_components`` exceeds D.

    Example:
        >>> import torch
        >>> x = torch.randn(500, 4, generator=torch.Generator().manual_seed(0)) * torch.tensor([1.0, 2.0, 3.0, 4.0])
        >>> y = Whitening(n_components=2).fit(x).transform(x)
        >>> torch.allclose(torch.cov(y.T), torch.eye(2), atol=1e-5)
        True
    """

    n_components: int | None = None
    shrinkage: Shrinkage = 0.0
    exponent: float = -0.5
    rank_tolerance: float = RANK_TOLERANCE

    size_option = "n_components"

    def weights(self, vectors: Tensor, scales: Tensor) -> tuple[Tensor, Tensor]:
        """The directions, scaled: their coordinates are the new dimensions."""
        return vectors * scales, (vectors / scales).T.contiguous()

"""Whitening of sentence embeddings, with shrinkage, softening and reduction of dimensions."""

import torch

from flowbert.calibration.affine import AffineCalibration, AffineMap
from flowbert.calibration.few_rows import few_to_whiten
from flowbert.calibration.moments import Moments
from flowbert.calibration.spectrum import (
    RANK_TOLERANCE,
    Shrinkage,
    checked_exponent,
    checked_shrinkage,
    checked_size,
    checked_tolerance,
    equalizes,
    spectrum,
    warn_of_few_rows,
    warn_of_rank_cut,
)
from flowbert.errors import UserError


class Whitening(AffineCalibration, method="whitening"):
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
        >>> x = torch.randn(500, 4, generator=torch.Generator().manual_seed(0)) * torch.tensor([1.0, 2.0, 3.0, 4.0])
        >>> y = Whitening(n_components=2).fit(x).transform(x)
        >>> torch.allclose(torch.cov(y.T), torch.eye(2), atol=1e-5)
        True
    """

    size_option = "n_components"

    def __init__(
        self,
        n_components: int | None = None,
        shrinkage: Shrinkage = 0.0,
        exponent: float = -0.5,
        rank_tolerance: float = RANK_TOLERANCE,
    ) -> None:
        super().__init__()
        self.n_components = checked_size(n_components, "n_components")
        self.shrinkage = checked_shrinkage(shrinkage)
        self.exponent = checked_exponent(exponent)
        self.rank_tolerance = checked_tolerance(rank_tolerance)

    @property
    def flaw(self) -> str | None:
        """Without shrinkage, as many directions as the sentences span make all of them equally similar."""
        if self.moments is None or not equalizes(self.moments, self.shrinkage, self.exponent, self.rank_tolerance):
            return None
        kept = self.affine_map().weight.shape[1]
        dim = self.moments.dim
        return few_to_whiten(self.method, self.moments.distinct, dim, kept, self.n_components or dim)

    def output_dim(self, dim: int) -> int:
        """Number of directions kept."""
        wanted = dim if self.n_components is None else self.n_components
        if wanted > dim:
            raise UserError(f"n_components is {wanted}; allowed: 1 to {dim}, the size of the embeddings")
        return wanted

    def solve(self, moments: Moments) -> AffineMap:
        """The whitening map of these statistics."""
        wanted = self.output_dim(moments.dim)
        found = spectrum(moments, self.shrinkage, self.rank_tolerance)
        if found.rank < wanted:
            warn_of_rank_cut("whitening", moments, found, wanted, self.rank_tolerance)
        if equalizes(moments, self.shrinkage, self.exponent, self.rank_tolerance):
            warn_of_few_rows("whitening", moments, min(wanted, found.rank))
        if found.rank == 0:
            identity = torch.eye(moments.dim, dtype=torch.float64)
            return AffineMap(moments.mean, identity[:, :wanted].clone(), identity[:wanted].clone())
        kept = min(wanted, found.rank)
        vectors, scales = found.vectors[:, :kept], found.values[:kept].pow(self.exponent)
        return AffineMap(moments.mean, vectors * scales, (vectors / scales).T.contiguous())

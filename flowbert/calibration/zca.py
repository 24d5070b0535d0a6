"""ZCA whitening: whitening turned back to the original axes."""

import torch

from flowbert.calibration.affine import AffineCalibration, AffineMap
from flowbert.calibration.few_rows import few_to_whiten
from flowbert.calibration.moments import Moments
from flowbert.calibration.spectrum import (
    RANK_TOLERANCE,
    Shrinkage,
    checked_exponent,
    checked_shrinkage,
    checked_tolerance,
    equalizes,
    spectrum,
    warn_of_few_rows,
    warn_of_rank_cut,
)


class ZCA(AffineCalibration, method="zca"):
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
        >>> x = torch.randn(500, 2, generator=torch.Generator().manual_seed(0)) * torch.tensor([1.0, 5.0])
        >>> torch.allclose(torch.cov(ZCA().fit(x).transform(x).T), torch.eye(2), atol=1e-5)
        True
    """

    def __init__(
        self, shrinkage: Shrinkage = 0.0, exponent: float = -0.5, rank_tolerance: float = RANK_TOLERANCE
    ) -> None:
        super().__init__()
        self.shrinkage = checked_shrinkage(shrinkage)
        self.exponent = checked_exponent(exponent)
        self.rank_tolerance = checked_tolerance(rank_tolerance)

    @property
    def flaw(self) -> str | None:
        """Without shrinkage, as many directions as the sentences span make all of them equally similar."""
        if self.moments is None or not equalizes(self.moments, self.shrinkage, self.exponent, self.rank_tolerance):
            return None
        fitted = self.affine_map()
        kept = round(float((fitted.weight * fitted.inverse.T).sum()))  # the trace of a projection is its rank
        dim = self.moments.dim
        return few_to_whiten(self.method, self.moments.distinct, dim, kept, dim)

    def solve(self, moments: Moments) -> AffineMap:
        """The ZCA map of these statistics."""
        found = spectrum(moments, self.shrinkage, self.rank_tolerance)
        if found.rank < moments.dim:
            warn_of_rank_cut("zca", moments, found, moments.dim, self.rank_tolerance)
        if equalizes(moments, self.shrinkage, self.exponent, self.rank_tolerance):
            warn_of_few_rows("zca", moments, found.rank)
        if found.rank == 0:
            identity = torch.eye(moments.dim, dtype=torch.float64)
            return AffineMap(moments.mean, identity, identity.clone())
        vectors, scales = found.vectors[:, : found.rank], found.values[: found.rank].pow(self.exponent)
        return AffineMap(moments.mean, (vectors * scales) @ vectors.T, (vectors / scales) @ vectors.T)

"""Eigenvalues and eigenvectors of a covariance, shrunk, and the maps that scale directions by their eigenvalues."""

import warnings
from abc import abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from flowbert.calibration.base import AffineMap, Calibration, at_most
from flowbert.calibration.few_rows import ENOUGH, few_sentences
from flowbert.calibration.moments import Moments
from flowbert.errors import FlowbertWarning

Shrinkage = float | str
RANK_TOLERANCE = 1e-10


@dataclass(frozen=True)
class Spectrum:
    r"""Eigendecomposition :math:`U \operatorname{diag}(\lambda) U^T` of a (shrunk) covariance, float64.

    Attributes:
        values: Eigenvalues, falling, not negative, shape ``(D,)``.
        vectors: Eigenvectors U as columns, the largest entry of each positive, shape ``(D, D)``.
    """

    values: Tensor
    vectors: Tensor


def spectrum(moments: Moments, shrinkage: float = 0.0) -> Spectrum:
    r"""Spectrum of :math:`(1 - s) \Sigma + s \bar\lambda I`, :math:`\bar\lambda` the mean eigenvalue of :math:`\Sigma`.

    Sigma has the divisor N - 1 (one row gives zero). Shrinking leaves the eigenvectors alone, so it is done on the
    eigenvalues. The eigenproblem is solved in float64 on the CPU: it gives the same signs and order everywhere.
    """
    values, vectors = moments.eigen()
    values, vectors = values.flip(0).clamp_min(0.0), vectors.flip(1)
    largest = vectors.abs().argmax(dim=0)
    signs = torch.where(vectors.gather(0, largest[None])[0] < 0, -1.0, 1.0).to(torch.float64)
    return Spectrum((1 - shrinkage) * values + shrinkage * values.mean(), vectors * signs)


class SpectralCalibration(Calibration):
    r"""Base of the maps that scale each direction of the covariance by a power e of its eigenvalue.

    Directions whose eigenvalue is below ``rank_tolerance`` times the largest hold rounding noise (or nothing); they are
    cut, with a warning, because scaling noise to unit variance would let it decide the cosines.
    """

    n_components: int | None = None
    shrinkage: Shrinkage
    exponent: float
    rank_tolerance: float

    @abstractmethod
    def weights(self, vectors: Tensor, scales: Tensor) -> tuple[Tensor, Tensor]:
        """Weight ``(D, k)`` and pseudo-inverse ``(k, D)`` of directions ``(D, r)`` and their scales ``(r,)``."""

    def output_dim(self, dim: int) -> int:
        """Number of directions wanted."""
        return at_most(dim, "n_components", self.n_components)

    @property
    def flaw(self) -> str | None:
        """Without shrinkage, as many directions as the sentences span make all of them equally similar.

        Centred, N points span N - 1 directions at most; scaled to equal variance in all of them they are the corners
        of a regular simplex, and every cosine is -1 / (N - 1).
        """
        if self.moments is None or not self._equalizes(self.moments):
            return None
        fitted, dim = self.affine_map(), self.moments.dim
        rank = round(float((fitted.weight * fitted.inverse.T).sum()))  # the trace of a projection is its rank
        remedies = f"{ENOUGH * (self.n_components or dim)} distinct sentences"
        effect, shrunk = "makes all of them equally similar", f"shrinkage ({self.method}:shrinkage=0.1), "
        return few_sentences(self.method, self.moments.distinct, dim, rank, effect, remedies, shrunk)

    def solve(self, moments: Moments) -> AffineMap:
        """The map of these statistics."""
        wanted, weight = self.output_dim(moments.dim), self._shrinkage(moments)
        found = spectrum(moments, weight)
        rank = int((found.values > self.rank_tolerance * found.values[0]).sum())
        if rank < wanted:
            self._warn_of_rank(moments, found, rank, wanted)
        rank = min(rank, wanted)
        if self._equalizes(moments) and rank + 1 < moments.distinct < ENOUGH * rank:  # below, the flaw says it
            warnings.warn(
                f"{self.method}: N={moments.distinct} distinct sentences for {rank} directions are few; below {ENOUGH} "
                f"for each direction shrinkage is advised ({self.method}:shrinkage=0.1)",
                FlowbertWarning,
                stacklevel=3,
            )
        if rank == 0:
            identity = torch.eye(moments.dim, dtype=torch.float64)
            return AffineMap(moments.mean, identity[:, :wanted].clone(), identity[:wanted].clone())
        scales = found.values[:rank].pow(self.exponent)
        return AffineMap(moments.mean, *self.weights(found.vectors[:, :rank], scales))

    def _shrinkage(self, moments: Moments) -> float:
        return moments.ledoit_wolf_shrinkage() if isinstance(self.shrinkage, str) else self.shrinkage

    def _equalizes(self, moments: Moments) -> bool:
        """Whether every direction has the same variance afterwards: the map whitens, and no shrinkage counts."""
        return self.exponent == -0.5 and self._shrinkage(moments) <= self.rank_tolerance

    def _warn_of_rank(self, moments: Moments, found: Spectrum, rank: int, wanted: int) -> None:
        action = f"keeping {rank}" if rank else "no direction varies, so the rows are only centred"
        warnings.warn(
            f"{self.method}: covariance of N={moments.count} rows in D={moments.dim} dimensions has rank {rank}, "
            f"{wanted} directions wanted; eigenvalues from {found.values[0]:.3e} down to {found.values[-1]:.3e}, cut "
            f"at {self.rank_tolerance:g} of the largest; {action} (more sentences, shrinkage or fewer components help)",
            FlowbertWarning,
            stacklevel=4,
        )

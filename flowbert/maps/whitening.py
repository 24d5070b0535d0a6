"""Whitening and ZCA: each direction of the covariance scaled by a power of its variance."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from flowbert.errors import warn
from flowbert.maps.base import MAPS
from flowbert.maps.gaussian import RANK_TOLERANCE, GaussianMap
from flowbert.numbers import is_number
from flowbert.vectors.moments import ROWS_PER_DIRECTION, Moments

CAUTION = (
    "Do not whiten encoders trained for similarity, or vectors that feed a classifier: both lose "
    "accuracy."
)
"""Advice of advise and of model cards; measured in docs/choosing-a-method.md."""


class SpectralMap(GaussianMap):
    r"""Base of the maps that scale the eigenvectors of the covariance by :math:`\lambda^e`."""

    n_components: int | None = None
    shrinkage: float | str
    exponent: float
    rank_tolerance: float

    @abstractmethod
    def _weight(self, vectors: Tensor, scales: Tensor) -> Tensor:
        """Weight ``(D, k)`` of directions ``(D, r)`` and scales ``(r,)``."""

    def output_dim(self, dim: int) -> int:
        """Check the parameters, and return the number of directions."""
        valid = self.shrinkage == "oas" or is_number(self.shrinkage, 0, 1)
        self.require("shrinkage", valid, "a number in [0, 1] or oas")
        self.require("exponent", is_number(self.exponent, -1, 0), "a number in [-1, 0]")
        valid = is_number(self.rank_tolerance, 0, 1) and self.rank_tolerance < 1
        self.require("rank_tolerance", valid, "a number in [0, 1)")
        return self.check_count("n_components", dim)

    def score_samples(self, X: Any) -> NDArray[Any]:
        """Log density of each row under the Gaussian of the shrunk covariance, ``(N,)``, in nats.

        Raises:
            UserError: If the exponent is not -0.5.
        """
        self.require("exponent", self.exponent == -0.5, "-0.5 for a density")
        return super().score_samples(X)

    def solve(self, moments: Moments) -> tuple[Tensor, Tensor]:
        """The map of the shrunk covariance, without directions that hardly vary."""
        wanted = self.output_dim(moments.dim)
        values, vectors = moments.eigen()
        share: Any = self.shrinkage
        if share == "oas":
            share = moments.oas_shrinkage()
        values = (1 - share) * values + share * values.mean()
        rank = min(int((values > self.rank_tolerance * values[0]).sum()), wanted)
        # Without shrinkage every direction has the same variance afterwards.
        equalizes = self.exponent == -0.5 and share <= self.rank_tolerance
        if equalizes:
            effect = "makes all of them equally similar"
            self.require_rows(moments, rank or wanted, effect)
        if rank == 0:
            identity = torch.eye(moments.dim, dtype=torch.float64)
            return moments.mean, identity[:, :wanted]
        self._warn_of_few_rows(moments.distinct, rank, wanted, equalizes)
        scales = values[:rank].pow(self.exponent)
        return moments.mean, self._weight(vectors[:, :rank], scales)

    def _warn_of_few_rows(
        self, distinct: int, rank: int, wanted: int, equalizes: bool
    ) -> None:
        if rank < wanted and (self.n_components is not None or distinct <= rank + 1):
            warn(
                f"{self.name}: {rank} directions in place of {wanted}; the {distinct} distinct "
                "sentences do not vary in others"
            )
        if equalizes:
            are_few = rank + 1 < distinct < ROWS_PER_DIRECTION * rank
            advice = f"shrinkage ({self.name}:shrinkage=0.1)"
        else:  # the shrinkage alone determines most of the directions
            are_few, advice = ROWS_PER_DIRECTION * distinct < rank, "more sentences"
        if are_few:
            warn(
                f"{self.name}: N={distinct} distinct sentences for {rank} directions are few; use "
                f"{advice}"
            )


@MAPS.register("whitening")
@dataclass(eq=False, repr=False)
class Whitening(SpectralMap):
    r"""Whitening: uncorrelated coordinates, without shrinkage all of variance 1.

    :math:`y = (x - \mu)\, U_{:, :k} \operatorname{diag}(\lambda_{:k})^{-1/2}`, where U and
    :math:`\lambda` are eigenvectors and eigenvalues of the (shrunk) covariance
    :math:`(1 - s) \Sigma + s \bar\lambda I`, the largest first. Directions without variance
    are dropped; a final LayerNorm leaves one.

    Args:
        n_components: Number of directions k; None for all. If the rows vary in fewer, these are
            kept, with a warning if k was set or the rows are too few.
        shrinkage: Weight s of the mean eigenvalue, in [0, 1], or ``"oas"`` for the oracle
            approximating shrinkage estimate.
        exponent: Power of the eigenvalues, in [-1, 0]: -0.5 whitens, 0 only rotates.
        rank_tolerance: Directions with a smaller share of the largest eigenvalue are left out.

    References:
        Whitening Sentence Representations for Better Semantics and Faster Retrieval (Su et al.,
        2021). https://arxiv.org/abs/2103.15316

    Example:
        >>> x = torch.randn(500, 4, generator=torch.Generator().manual_seed(0))
        >>> Whitening().fit_transform(x).T.cov().diagonal()
        tensor([1.0000, 1.0000, 1.0000, 1.0000])
    """

    size_parameter = "n_components"

    n_components: int | None = None
    shrinkage: float | str = 0.0
    exponent: float = -0.5
    rank_tolerance: float = RANK_TOLERANCE

    @property
    def n_components_(self) -> int:
        """Number of directions that the fit kept, at most k."""
        return self._n_features_out

    def _weight(self, vectors: Tensor, scales: Tensor) -> Tensor:
        return vectors * scales


@MAPS.register("zca")
@dataclass(eq=False, repr=False)
class ZCA(SpectralMap):
    r"""ZCA whitening :math:`y = (x - \mu)\, U \operatorname{diag}(\lambda)^{-1/2} U^T`.

    Args:
        shrinkage: As in :class:`Whitening`.
        exponent: As in :class:`Whitening`.
        rank_tolerance: As in :class:`Whitening`.

    References:
        Optimal Whitening and Decorrelation (Kessy et al., 2018).
        https://arxiv.org/abs/1512.00809
    """

    shrinkage: float | str = 0.0
    exponent: float = -0.5
    rank_tolerance: float = RANK_TOLERANCE

    def _weight(self, vectors: Tensor, scales: Tensor) -> Tensor:
        return (vectors * scales) @ vectors.T

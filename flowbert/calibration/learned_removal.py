"""Weighted removal of the strongest directions, the weights learned on labelled pairs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from flowbert.calibration.base import AffineMap, Calibration, NotFittedError, Rows, at_most, checked_rows, needed
from flowbert.calibration.moments import Moments
from flowbert.calibration.spectrum import spectrum
from flowbert.errors import UserError
from flowbert.progress import progress

Floats = NDArray[np.float64]
_WEIGHTS = "weights"
_DIRECTIONS = 100
_CONVERGED: Any = {"ftol": 1e-15, "gtol": 1e-10}  # scipy's own stop so early that the last digits of the rows show
_SMALLEST_NORM = 1e-12  # of a squared norm as a share of the mean one: a row that the removal leaves empty


@dataclass(eq=False)
class LearnedRemoval(Calibration, method="learned-removal"):
    r"""Weighted removal :math:`y = (x - \mu)(I - \sum_i w_i u_i u_i^T)`, the weights learned on labelled pairs.

    Supervised, unlike the other calibrations: :meth:`fit` and :meth:`partial_fit` only collect the statistics that give
    the mean and the directions :math:`u_i` (top k of the covariance); :meth:`fit_pairs` then learns the weights. The
    learned weights maximize Pearson's correlation of cosine and score, by L-BFGS from :math:`w = 0`, so nothing is
    random and the scale of the scores plays no role. A weight of 0 leaves a direction alone, 1 nulls it, below 0
    strengthens it.

    References:
        Learning to Remove: Towards Isotropic Pre-trained BERT Embedding (Liang et al., 2021).
        https://arxiv.org/abs/2104.05274 (there without centring and on word pairs)

    Args:
        n_directions: How many directions k get a weight; None takes 100, or D if that is less.
        penalty: Weight of :math:`\sum w_i^2 / k` in the loss, at least 0.
        center: Subtract the mean. False leaves the rows where they are, as the paper does; the directions then are
            those of :math:`E[x x^T]`.

    Shapes:
        x, transformed: ``(N, D)``.  N: sentences, D: embedding size.

    Raises:
        UserError: If an argument is out of range, or ``n_directions`` exceeds D.

    Example:
        >>> generator = torch.Generator().manual_seed(0)
        >>> meaning, noise = torch.randn(2, 200, 2, generator=generator), torch.randn(2, 200, 1, generator=generator)
        >>> x1, x2 = torch.cat([meaning, 9 * noise], dim=2)
        >>> scores = torch.cosine_similarity(*meaning)
        >>> LearnedRemoval(1).fit_pairs(x1, x2, scores).weights.round(decimals=1).tolist()
        [1.0]
    """

    n_directions: int | None = None
    penalty: float = 0.0
    center: bool = True

    size_option = "n_directions"
    to_be_fitted = "call fit_pairs with labelled pairs"

    @property
    def fitted(self) -> bool:
        """Whether the weights have been learned for the rows seen."""
        return super().fitted and self._weights is not None

    @property
    def weights(self) -> Tensor:
        """Learned weights of shape ``(k,)``, float64, the strongest direction first."""
        if self._weights is None:
            raise NotFittedError(f"{type(self).__name__} has no weights: {self.to_be_fitted}")
        return self._weights

    def forget_map(self) -> None:
        """Forget the weights: the directions that they belong to have changed."""
        super().forget_map()
        self._weights: Tensor | None = None

    def fit_pairs(self, x1: Rows, x2: Rows, scores: Tensor | NDArray[np.floating]) -> Self:
        """Learn the weights; without rows seen before, mean and directions come from these pairs. Returns self.

        Args:
            x1: First vectors of P pairs, shape ``(P, D)``.
            x2: Second vectors, shape ``(P, D)``.
            scores: Labelled similarities, shape ``(P,)``, on any scale, higher for more alike.

        Raises:
            ValueError: If the shapes differ.
            UserError: If a value is not finite, there are fewer than 2 pairs, or all scores are equal.
        """
        from scipy.optimize import minimize  # takes a second to import

        left, right, target = _checked(x1, x2, scores)
        checked_rows(left, self.dim)
        if not super().fitted:
            self.partial_fit(left).partial_fit(right)
        with progress(None, f"Fitting {self.method}", "gradient steps") as step:
            moments = cast(Moments, self.moments).to("cpu")
            directions, center = self._directions(moments), self._center(moments)
            pairs = _Pairs(left - center, right - center, directions, target)
            found = minimize(
                pairs.loss,
                np.zeros(directions.shape[1]),
                args=(self.penalty,),
                jac=True,
                method="L-BFGS-B",
                bounds=[(None, 1.0)] * directions.shape[1],  # beyond 1 a direction is mirrored: the same cosines
                callback=lambda _: step.update(),
                options=_CONVERGED,
            )
        self._weights = torch.from_numpy(np.asarray(found.x, dtype=np.float64).copy())
        self._map = None
        return self

    def solve(self, moments: Moments) -> AffineMap:
        """The map of these statistics and the learned weights."""
        directions = self._directions(moments)
        factors = 1 - self.weights
        back = torch.where(factors.abs() > 1e-12, 1 / factors.clamp_min(1e-12), torch.zeros_like(factors))
        identity = torch.eye(moments.dim, dtype=torch.float64)
        weight, inverse = (identity + (directions * (factor - 1)) @ directions.T for factor in (factors, back))
        return AffineMap(self._center(moments), weight, inverse)

    def state_dict(self) -> dict[str, Tensor]:
        """Moments, map and weights; empty before the weights are learned."""
        return super().state_dict() | {_WEIGHTS: self.weights.clone()} if self.fitted else {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> Self:
        """Take over a :meth:`state_dict`. Returns self.

        Raises:
            UserError: If a tensor is missing.
        """
        super().load_state_dict(state)
        if state:
            self._weights = needed(state, _WEIGHTS)
        return self

    def output_dim(self, dim: int) -> int:
        """The size of the rows: what is removed stays as zeros."""
        at_most(dim, "n_directions", self.n_directions)
        return dim

    def _center(self, moments: Moments) -> Tensor:
        return moments.mean if self.center else torch.zeros_like(moments.mean)

    def _directions(self, moments: Moments) -> Tensor:
        dim = self.output_dim(moments.dim)
        count = min(_DIRECTIONS, dim) if self.n_directions is None else self.n_directions
        if not self.center:
            moments = moments.with_scatter(moments.scatter + moments.count * torch.outer(moments.mean, moments.mean))
        return spectrum(moments).vectors[:, :count]


class _Pairs:
    """Labelled pairs in terms of the directions: cosine and loss as functions of the weights."""

    def __init__(self, left: Tensor, right: Tensor, directions: Tensor, target: Floats) -> None:
        a, b = left @ directions, right @ directions
        # Each inner product (left-right, left-left, right-right) by direction, and what lies outside them.
        self.along = [product.numpy() for product in (a * b, a * a, b * b)]
        wholes = [(x * y).sum(dim=1).numpy() for x, y in ((left, right), (left, left), (right, right))]
        self.outside = [whole - along.sum(axis=1) for whole, along in zip(wholes, self.along, strict=True)]
        centred = target - target.mean()
        self.target = centred / np.linalg.norm(centred)

    def loss(self, weights: Floats, penalty: float) -> tuple[float, Floats]:
        """1 - Pearson(cosine, target) + penalty, and its gradient by the weights."""
        factors = (1 - weights) ** 2
        dot, left, right = (rest + along @ factors for rest, along in zip(self.outside, self.along, strict=True))
        left, right = (np.maximum(norm, _SMALLEST_NORM * norm.mean()) for norm in (left, right))
        length = np.sqrt(left * right)
        cosine = dot / length
        centred = cosine - cosine.mean()
        norm = max(float(np.linalg.norm(centred)), np.finfo(np.float64).tiny)
        correlation = float(centred @ self.target) / norm
        by_cosine = -(self.target - correlation * centred / norm) / norm
        cross, own_left, own_right = self.along
        by_factors = (by_cosine / length) @ cross
        by_factors = by_factors - (by_cosine * cosine / left) @ own_left / 2
        by_factors = by_factors - (by_cosine * cosine / right) @ own_right / 2
        gradient = by_factors * -2 * (1 - weights) + 2 * penalty * weights / len(weights)
        return 1 - correlation + penalty * float(np.mean(weights**2)), gradient


def _checked(x1: Rows, x2: Rows, scores: Tensor | NDArray[np.floating]) -> tuple[Tensor, Tensor, Floats]:
    left, right = (checked_rows(x).detach().to("cpu", torch.float64) for x in (x1, x2))
    target = np.asarray(scores.detach().cpu() if isinstance(scores, Tensor) else scores, dtype=np.float64)
    if left.shape != right.shape or target.shape != (len(left),):
        raise ValueError(
            f"pairs have the shapes {tuple(left.shape)} and {tuple(right.shape)}, scores {target.shape}; "
            "allowed: (P, D), (P, D), (P,)"
        )
    bad = int((~np.isfinite(target)).sum())
    if bad:
        raise UserError(f"{bad} of {len(target)} scores are NaN or infinite; allowed: finite")
    values = len(np.unique(target))
    if values < 2:
        raise UserError(f"{len(target)} pairs with {values} different scores; allowed: 2 or more of both")
    return left, right, target

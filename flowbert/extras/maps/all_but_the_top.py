"""Removal of the strongest directions, which all sentences share."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flowbert.arrays import Floats, to_tensor
from flowbert.errors import UserError
from flowbert.maps.base import AffineMap, LabelledPairs, check_rows
from flowbert.maps.simple import standard_deviations
from flowbert.numbers import is_number
from flowbert.precision import usual_modes
from flowbert.vectors.moments import Moments

_MOST_DIRECTIONS = 100
# scipy's defaults stop where the last digits change.
_CONVERGED: Any = {"ftol": 1e-15, "gtol": 1e-10}
# The loss has several minima. At 1, where a direction is gone, the gradient is 0.
_STARTS = (0.0, 0.5)
# Share of the mean squared norm: a row that the removal leaves empty.
_SMALLEST_NORM = 1e-12
_TINY = float(np.finfo(np.float64).tiny)


@dataclass(eq=False, repr=False)
class RemoveDirections(AffineMap):
    r"""Nulling of the top k directions :math:`y = (x - \mu)(I - U_{:, :k} U_{:, :k}^T)`.

    Args:
        n_directions: Number of directions k; None for D / 100, as the paper advises.
        standardize: Divide by the standard deviations first.

    References:
        All-but-the-Top: Simple and Effective Postprocessing for Word Representations (Mu and
        Viswanath, 2018). https://arxiv.org/abs/1702.01417
    """

    size_parameter = "n_directions"

    n_directions: int | None = None
    standardize: bool = False

    def _count(self, dim: int) -> int:
        if self.n_directions is None:
            return max(1, round(dim / 100))
        return self.check_count("n_directions", dim - 1)

    def output_dim(self, dim: int) -> int:
        """Check the parameters, and return ``dim``; removed directions become 0."""
        self._count(dim)
        valid = isinstance(self.standardize, bool)
        self.require("standardize", valid, "true or false")
        return dim

    def solve(self, moments: Moments) -> tuple[Tensor, Tensor]:
        """The projection onto the other directions."""
        identity = torch.eye(moments.dim, dtype=torch.float64)
        count = self._count(moments.dim)
        self.require_rows(moments, count, f"vary in {count} directions or fewer")
        if not self.standardize:
            top = moments.eigen()[1][:, :count]
            projection = identity - top @ top.T
            return moments.mean, projection
        std = standard_deviations(moments)
        correlation = moments.covariance() / torch.outer(std, std)
        top = torch.linalg.eigh(correlation).eigenvectors[:, -count:]
        projection = identity - top @ top.T
        return moments.mean, projection / std[:, None]


@dataclass(eq=False, repr=False)
class LearnedRemoval(AffineMap):
    r"""Weighted removal :math:`y = (x - \mu)(I - \sum_i w_i u_i u_i^T)`, learned from labels.

    The weights maximize Pearson's correlation of the cosines of labelled pairs with their scores:
    the better of two local maxima, found from weights of 0 and of 0.5.

    Args:
        n_directions: Number of directions; None for 100, or D if that is less.
        penalty: Weight of the mean squared direction weight in the loss.
        center: Whether to subtract the mean and use directions of the covariance; otherwise,
            directions of the second moment.

    It is fitted on rows and labelled pairs, ``fit(X, pairs=(left, right, scores))``.

    Attributes:
        weights_: Weights ``(k,)``, float64, the strongest direction first.

    References:
        Learning to Remove: Towards Isotropic Pre-trained BERT Embedding (Liang et al., 2021).
        https://arxiv.org/abs/2104.05274
    """

    size_parameter = "n_directions"
    supervised = True

    n_directions: int | None = None
    penalty: float = 0.0
    center: bool = True

    def output_dim(self, dim: int) -> int:
        """Check the parameters, and return ``dim``."""
        self.check_count("n_directions", dim)
        valid = is_number(self.penalty, 0, np.inf) and np.isfinite(self.penalty)
        self.require("penalty", valid, "a number of at least 0")
        self.require("center", isinstance(self.center, bool), "true or false")
        return dim

    @usual_modes()
    def learn(self, moments: Moments, pairs: LabelledPairs) -> None:
        """Learn the weights of the strongest directions."""
        from scipy.optimize import minimize

        left, right, scores = pairs
        target = np.asarray(scores, dtype=np.float64)
        if not np.isfinite(target).all() or len(np.unique(target)) < 2:
            raise UserError(
                "expected at least two different finite scores", argument="labels"
            )
        directions, center = self._directions(moments), self._center(moments)
        rows = [to_tensor(check_rows(x, "pairs")) for x in (left, right)]
        first, second = (x.to("cpu", torch.float64) - center for x in rows)
        learned = _Pairs(first, second, directions, target)
        found: list[Any] = [
            minimize(
                learned.loss,
                np.full(directions.shape[1], start),
                args=(self.penalty,),
                jac=True,
                method="L-BFGS-B",
                # Beyond 1 a direction is mirrored: the same cosines.
                bounds=[(None, 1.0)] * directions.shape[1],
                options=_CONVERGED,
            )
            for start in _STARTS
        ]
        best = min(found, key=lambda each: float(each.fun))
        self.weights_ = torch.tensor(best.x, dtype=torch.float64)

    def solve(self, moments: Moments) -> tuple[Tensor, Tensor]:
        """The map of the learned weights."""
        directions = self._directions(moments)
        identity = torch.eye(moments.dim, dtype=torch.float64)
        weight = identity - (directions * self.weights_) @ directions.T
        return self._center(moments), weight

    def _center(self, moments: Moments) -> Tensor:
        return moments.mean if self.center else torch.zeros_like(moments.mean)

    def _directions(self, moments: Moments) -> Tensor:
        count = min(self.n_directions or _MOST_DIRECTIONS, moments.dim)
        if self.center:
            return moments.eigen()[1][:, :count]
        second = moments.covariance() * (moments.count - 1) / moments.count
        second += torch.outer(moments.mean, moments.mean)
        vectors: Tensor = torch.linalg.eigh(second).eigenvectors
        return vectors.flip(1)[:, :count]


class _Pairs:
    """Labelled pairs by direction: the loss as a function of the weights."""

    def __init__(
        self, left: Tensor, right: Tensor, directions: Tensor, target: Floats
    ) -> None:
        self.along, self.outside, self.floors = [], [], []
        for x, y in ((left, right), (left, left), (right, right)):
            along, whole = (x @ directions) * (y @ directions), (x * y).sum(1)
            self.along.append(along)
            self.outside.append(whole - along.sum(dim=1))
            self.floors.append(max(_SMALLEST_NORM * float(whole.abs().mean()), _TINY))
        centred = torch.from_numpy(target - target.mean())
        self.target = centred / centred.norm()

    def loss(self, weights: Floats, penalty: float) -> tuple[float, Floats]:
        """1 - Pearson(cosine, score) + penalty, and its gradient by the weights."""
        w = torch.tensor(weights, requires_grad=True)
        dot, left, right = (
            outside + along @ (1 - w) ** 2
            for outside, along in zip(self.outside, self.along, strict=True)
        )
        left, right = (
            left.clamp_min(self.floors[1]),
            right.clamp_min(self.floors[2]),
        )
        cosine = dot / (left * right).sqrt()
        centred = cosine - cosine.mean()
        correlation = centred @ self.target / centred.norm().clamp_min(_TINY)
        loss = 1 - correlation + penalty * w.square().mean()
        (gradient,) = torch.autograd.grad(loss, w)
        return float(loss.detach()), gradient.numpy()

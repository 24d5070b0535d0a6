"""Softmax regression with an L2 penalty, over a path of penalties: the classifier of a linear probe."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_TOLERANCE = 1e-5  # of the largest slope by a scaled weight: on SICK the value is then within 1e-7 of the least
_STEPS = 1000


class Linear(NamedTuple):
    """A linear classifier.

    Attributes:
        weights: Shape ``(F, K)``.
        bias: Shape ``(K,)``.
    """

    weights: Floats
    bias: Floats

    def predict(self, features: Floats) -> NDArray[np.int64]:
        """Class of the highest score, from 0, for rows of shape ``(N, F)``: shape ``(N,)``."""
        found: NDArray[np.int64] = np.argmax(features @ self.weights + self.bias, axis=1)
        return found


def softmax_regressions(features: Floats, classes: NDArray[np.int64], penalties: Sequence[float]) -> Iterator[Linear]:
    r"""Minimize :math:`-\frac1N \sum_i \log p_{i, y_i} + \frac\lambda2 \lVert W \rVert^2` for each :math:`\lambda`.

    The bias is free of the penalty. For K > 2 it is scikit-learn's ``LogisticRegression(C=1 / (N * penalty))``. L-BFGS
    in float64 starts from the weights under the penalty before, so give the strongest first. It sees the weights
    scaled by the root of Boehning's bound on the Hessian, along the eigenvectors of the features' covariance, where the
    bound is diagonal: features of embeddings are far from independent, and it takes less than half of the steps so.

    References:
        Multinomial logistic regression algorithm (Boehning, 1992). https://doi.org/10.1007/BF00048682

    Args:
        features: Shape ``(N, F)``, each column with mean 0.
        classes: Class of each row, each of 0 to K - 1 at least once, shape ``(N,)``.
        penalties: Values of :math:`\lambda`, each above 0.

    Yields:
        A classifier for each penalty.

    Example:
        >>> x = np.array([[-2.0], [-1.0], [1.0], [2.0]])
        >>> [found] = softmax_regressions(x, np.array([0, 0, 1, 1]), [0.1])
        >>> found.predict(x), found.weights.round(2)
        (array([0, 0, 1, 1]), array([[-0.92,  0.92]]))
    """
    from scipy.optimize import minimize  # takes a second to import

    spread, axes = np.linalg.eigh(features.T @ features / len(features))
    rotated = features @ axes  # the length of the weights, and so the penalty, stays the same
    one_hot = np.eye(classes.max() + 1)[classes]
    weights, bias = np.zeros((features.shape[1], one_hot.shape[1])), np.zeros(one_hot.shape[1])
    for penalty in penalties:
        scale = 1 / np.sqrt(spread.clip(min=0) / 2 + penalty)[:, None]
        start = np.vstack([weights / scale, bias]).ravel()
        found = minimize(
            _objective(rotated, one_hot, penalty, scale),
            start,
            method="L-BFGS-B",
            jac=True,
            options={"maxiter": _STEPS, "maxfun": 2 * _STEPS, "gtol": _TOLERANCE, "ftol": 0.0},
        )
        scaled = found.x.reshape(-1, len(bias))
        weights, bias = scaled[:-1] * scale, scaled[-1]
        yield Linear(axes @ weights, bias)


def _objective(
    features: Floats, one_hot: Floats, penalty: float, scale: Floats
) -> Callable[[Floats], tuple[float, Floats]]:
    """Value and gradient by scaled weights and bias, flat."""
    from scipy.special import log_softmax

    rows = len(features)

    def objective(flat: Floats) -> tuple[float, Floats]:
        scaled = flat.reshape(-1, one_hot.shape[1])
        weights = scaled[:-1] * scale
        log_p = log_softmax(features @ weights + scaled[-1], axis=1)
        value = penalty / 2 * np.sum(weights**2) - np.sum(one_hot * log_p) / rows
        error = (np.exp(log_p) - one_hot) / rows
        slopes = np.vstack([scale * (features.T @ error + penalty * weights), error.sum(axis=0)])
        return float(value), slopes.ravel()

    return objective

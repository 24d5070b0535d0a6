"""Softmax regression against scikit-learn, closed forms and its own optimality."""

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from flowbert.tasks.softmax_regression import softmax_regressions

PENALTIES = (1.0, 0.1, 0.01)


def made(rows: int = 200, columns: int = 12, classes: int = 3) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Features far from independent, and classes that they tell in part."""
    generator = np.random.default_rng(0)
    x = generator.normal(size=(rows, columns)) @ generator.normal(size=(columns, columns))
    x -= x.mean(axis=0)
    found: NDArray[np.int64] = np.argmax(x[:, :classes] + 2 * generator.normal(size=(rows, classes)), axis=1)
    return x, found


@pytest.mark.parametrize("classes", [2, 3])
def test_it_is_scikit_learns(classes: int) -> None:
    x, y = made(classes=classes)
    for penalty, found in zip(PENALTIES, softmax_regressions(x, y, PENALTIES), strict=True):
        # Of two classes the peer weighs one, by the difference of our weights, on which our penalty is half.
        strength = (2 if classes == 2 else 1) / (len(x) * penalty)
        peer = LogisticRegression(C=strength, tol=1e-10, max_iter=10000).fit(x, y)
        weights, bias = found.weights.T, found.bias
        if classes == 2:
            weights, bias = np.diff(weights, axis=0), np.diff(bias)
        np.testing.assert_allclose(weights, peer.coef_, atol=2e-4)
        np.testing.assert_allclose(bias - bias[0], peer.intercept_ - peer.intercept_[0], atol=2e-4)
        np.testing.assert_array_equal(found.predict(x), peer.predict(x))


def test_each_penalty_is_as_if_alone() -> None:
    x, y = made()
    path = list(softmax_regressions(x, y, PENALTIES))
    for penalty, along in zip(PENALTIES, path, strict=True):
        (alone,) = softmax_regressions(x, y, [penalty])
        np.testing.assert_allclose(along.weights, alone.weights, atol=1e-4)


def test_the_slopes_vanish() -> None:
    x, y = made()
    for penalty, found in zip(PENALTIES, softmax_regressions(x, y, PENALTIES), strict=True):
        scores = np.exp(x @ found.weights + found.bias)
        error = (scores / scores.sum(axis=1, keepdims=True) - np.eye(3)[y]) / len(x)
        np.testing.assert_allclose(x.T @ error + penalty * found.weights, 0, atol=2e-4)
        np.testing.assert_allclose(error.sum(axis=0), 0, atol=1e-5)


def test_without_features_the_bias_is_the_log_of_the_frequencies() -> None:
    y = np.repeat([0, 1, 2], [60, 30, 10])
    (found,) = softmax_regressions(np.zeros((100, 4)), y, [0.1])
    odds = np.exp(found.bias)
    np.testing.assert_allclose(odds / odds.sum(), [0.6, 0.3, 0.1], atol=1e-4)
    assert not found.weights.any()
    assert not found.predict(np.ones((3, 4))).any()


def test_one_feature_of_two_values_has_a_closed_slope() -> None:
    """At the optimum p - 1 = -penalty x weight, for x = 1 and -1: the root of a scalar equation."""
    (found,) = softmax_regressions(np.array([[-1.0], [1.0]]), np.array([0, 1]), [0.25])
    weight = found.weights[0, 1]
    assert found.weights[0, 0] == pytest.approx(-weight, abs=1e-4)
    assert 1 / (1 + np.exp(2 * weight)) == pytest.approx(0.25 * weight, abs=1e-4)

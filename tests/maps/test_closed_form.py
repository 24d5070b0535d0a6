"""What each closed-form map does to the rows."""

import math

import numpy as np
import pytest
import sklearn.covariance
import torch
from numpy.testing import assert_allclose, assert_array_equal

from flowbert.extras.maps.all_but_the_top import LearnedRemoval, RemoveDirections
from flowbert.maps import (
    ZCA,
    Centering,
    MeanRemoval,
    Standardization,
    Truncation,
    Whitening,
    make_map,
)
from flowbert.vectors.moments import Moments
from helpers import refused, rows, warned

X = rows(2000, 8)


@pytest.mark.parametrize("estimator", [Whitening(), ZCA()], ids=str)
def test_whitened_covariance_is_the_identity(estimator):
    y = estimator.fit_transform(X)
    assert_allclose(np.cov(y.T), np.eye(8), atol=1e-9)
    assert_allclose(y.mean(axis=0), 0, atol=1e-9)


def test_zca_stays_near_the_rows_and_whitening_is_its_rotation():
    zca, white = ZCA().fit(X), Whitening().fit(X)
    weight = zca.affine()[0]
    assert_allclose(weight, weight.T, atol=1e-12)
    gram_zca, gram_white = (
        m.transform(X[:50]) @ m.transform(X[:50]).T for m in (zca, white)
    )
    assert_allclose(gram_zca, gram_white, atol=1e-8)


def test_components_are_the_first_of_all_and_exponent_zero_only_rotates():
    part = Whitening(n_components=3).fit_transform(X)
    assert_allclose(part, Whitening().fit_transform(X)[:, :3], atol=1e-12)
    truncated = Truncation(n_components=3).fit_transform(X)
    assert_array_equal(truncated, X[:, :3])
    lengths = np.linalg.norm(Whitening(exponent=0.0).fit_transform(X), axis=1)
    centred = Centering().fit_transform(X)
    assert_allclose(centred, X - X.mean(axis=0), atol=1e-12)
    assert_allclose(lengths, np.linalg.norm(centred, axis=1), rtol=1e-9)


def test_shrinkage_moves_eigenvalues_towards_their_mean():
    y = Whitening(shrinkage=0.3, exponent=-0.5).fit_transform(X)
    values = np.sort(np.linalg.eigvalsh(np.cov(X.T)))[::-1]
    expected = values / (0.7 * values + 0.3 * values.mean())
    assert_allclose(y.var(axis=0, ddof=1), expected, rtol=1e-9)


def test_oas_shrinkage_is_that_of_scikit_learn():
    x = rows(40, 8)
    expected = sklearn.covariance.OAS().fit(x).shrinkage_
    moments = Moments(8).update(torch.from_numpy(x))
    assert moments.oas_shrinkage() == pytest.approx(expected, rel=1e-9)
    oas, fixed = (
        Whitening(shrinkage="oas").fit(x),
        Whitening(shrinkage=float(expected)).fit(x),
    )
    assert_allclose(oas.transform(x), fixed.transform(x), atol=1e-9)


def test_variances_far_apart_in_float32_rows():
    # Products in float32 would err by 1e-7 of the largest variance, which is 1; rounding of the
    # rows is a variance of 1e-14. An eigenvalue errs by up to D u of float64 on each side
    # (Golub and Van Loan, Matrix Computations, 2013, section 8.1).
    rng = np.random.default_rng(0)
    scales = np.ones(64)
    scales[:2] = 5e-5, 0.0  # variances of 2.5e-9, which is kept, and of 0
    bound = 2 * 64 * 2.0**-53 / 2.5e-9
    rotation = np.linalg.qr(rng.normal(size=(64, 64))).Q
    x = (rng.normal(size=(4000, 64)) * scales @ rotation + 1).astype(np.float32)
    y = Whitening().fit(x).transform(x.astype(np.float64))
    assert y.shape == (4000, 63)
    assert_allclose(np.cov(y.T), np.eye(63), atol=bound)


def test_directions_without_variance_are_cut():
    flat = X.copy()
    flat[:, 0] = flat[:, 1:].sum(axis=1)  # rank D - 1, as after a LayerNorm
    assert Whitening().fit_transform(flat).shape == (2000, 7)
    flat[:, :3] = 1.0
    assert Whitening().fit_transform(flat).shape == (2000, 5)
    y = Whitening().fit_transform(np.ones((50, 4)))
    assert np.array_equal(y, np.zeros((50, 4)))  # only centred
    with warned("N=30 distinct sentences for 8 directi"):
        Whitening().fit(rows(30, 8))


@pytest.mark.parametrize(
    ("estimator", "distinct", "is_invalid"),
    [
        (Whitening(), 9, True),
        (Whitening(), 10, False),
        (ZCA(), 9, True),
        (Whitening(n_components=3), 4, True),
        (Whitening(n_components=3), 5, False),
        (Whitening(shrinkage=0.1), 3, False),
        (Whitening(exponent=-0.35), 3, False),
        (RemoveDirections(n_directions=3), 4, True),
        (RemoveDirections(n_directions=3), 5, False),
        (Standardization(), 2, False),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::flowbert.errors.FlowbertWarning")
def test_maps_of_too_few_distinct_rows_say_so(estimator, distinct, is_invalid):
    repeated = np.tile(rows(distinct, 8), (5, 1))
    invalid_reason = estimator.fit(repeated).invalid_reason
    assert (invalid_reason is not None) == is_invalid
    if invalid_reason is not None:
        assert f"N={distinct}" in invalid_reason
        assert "D=8" in invalid_reason


def test_standardization_leaves_constant_dimensions_centred():
    x = X.copy()
    x[:, 2] = 5.0
    y = Standardization().fit_transform(x)
    assert_allclose(np.delete(y.std(axis=0, ddof=1), 2), 1)
    assert np.array_equal(y[:, 2], np.zeros(2000))


def test_nulling_removes_the_strongest_directions():
    y = RemoveDirections(n_directions=3).fit_transform(X)
    values = np.linalg.eigvalsh(np.cov(X.T))
    assert_allclose(np.linalg.eigvalsh(np.cov(y.T))[3:], values[:5], rtol=1e-9)
    standardized = RemoveDirections(n_directions=3, standardize=True).fit_transform(X)
    correlation = np.linalg.eigvalsh(np.corrcoef(X.T))
    assert_allclose(
        np.linalg.eigvalsh(np.cov(standardized.T))[3:], correlation[:5], rtol=1e-9
    )


def cosines(x):
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    return np.asarray(unit @ unit.T)


def test_mean_removal_is_that_of_rows_at_length_1():
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    mean = unit.mean(axis=0)
    mean /= np.linalg.norm(mean)
    y = MeanRemoval().fit_transform(X)
    assert_allclose(y @ mean, 0, atol=1e-12)
    expected = unit - np.outer(unit @ mean, mean)
    assert_allclose(cosines(y[:50]), cosines(expected[:50]), atol=1e-12)
    lengths = np.random.default_rng(0).uniform(0.1, 9.0, size=(len(X), 1))
    assert_allclose(
        MeanRemoval().fit(X * lengths).affine()[0],
        MeanRemoval().fit(X).affine()[0],
        atol=1e-12,
    )
    zeros = np.zeros((5, 4))  # have no direction
    assert np.array_equal(MeanRemoval().fit(zeros).affine()[0], np.eye(4))


def correlation(estimator, x, y, target):
    a, b = estimator.transform(x), estimator.transform(y)
    cosine = (a * b).sum(axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    return float(np.corrcoef(cosine, target)[0, 1])


@pytest.mark.parametrize("center", [True, False])
def test_learned_removal_finds_the_direction_that_disturbs(center):
    rng = np.random.default_rng(0)
    meaning = rng.normal(size=(600, 2, 5))
    meaning[:, 1] = 0.5 * meaning[:, 1] + 0.5 * meaning[:, 0]
    target = np.array([np.corrcoef(pair)[0, 1] for pair in meaning])
    disturbed = np.concatenate([meaning, 20 * rng.normal(size=(600, 2, 1))], axis=2)
    left, right = disturbed[:, 0], disturbed[:, 1]
    x, pairs = disturbed.reshape(-1, 6), (left, right, target)
    fitted = LearnedRemoval(center=center).fit(x, pairs=pairs)
    bent = LearnedRemoval(center=center, penalty=100.0).fit(x, pairs=pairs)
    assert bent.weights_.abs().max() < 0.01  # nothing but the mean is removed
    before = correlation(bent, left, right, target)
    assert correlation(fitted, left, right, target) > before + 0.3
    assert fitted.weights_[0] == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize("scores", [[1.0, 1.0, 1.0], [1.0, math.nan, 2.0]])
def test_learned_removal_wants_two_scores(scores):
    refused("labels", LearnedRemoval().fit, X, pairs=(X[:3], X[3:6], scores))


def test_what_learns_from_labels_is_never_silently_unlearned():
    for template in (LearnedRemoval(), make_map("whitening-4+learned-removal-2")):
        refused("received no labelled pairs", template.fit, X)


def test_parameters_are_checked_along_a_chain():
    assert make_map("whitening-6+truncation-6").check(8) == 6
    assert len(make_map("learned-removal:penalty=1e+3").parts) == 1  # no chain
    refused(
        "truncation-7: n_components: received 7",
        make_map("whitening-6+truncation-7").check,
        8,
    )
    refused("shrinkage", make_map("whitening:shrinkage=much").check, 8)

"""Log densities of rows: change of variables, Gaussians of scipy, chains and maps without one."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal

from flowbert.maps import ZCA, Standardization, Whitening, make_map
from helpers import refused, rows

pytestmark = pytest.mark.filterwarnings("ignore::flowbert.errors.FlowbertWarning")

FLOW = "flow:levels=2:depth=2:width=5:epochs=1"
X = rows(120, 6)


@pytest.mark.parametrize("text", [FLOW, f"{FLOW}:init=whitening:coupling=affine"])
def test_the_density_of_a_flow_is_a_change_of_variables(text):
    fitted = make_map(text).fit(X)
    expected = multivariate_normal(np.zeros(6)).logpdf(fitted.transform(X[:9]))
    for number, row in enumerate(torch.from_numpy(X[:9])):
        jacobian = torch.func.jacrev(lambda x: fitted.flow_(x[None])[0][0])(row)
        expected[number] += float(torch.linalg.slogdet(jacobian).logabsdet)
    # Products of six 6 x 6 matrices in float64, of condition 1e3 at most.
    assert_allclose(fitted.score_samples(X[:9]), expected, rtol=1e-10)
    assert fitted.score(X[:9]) == pytest.approx(expected.mean())


@pytest.mark.parametrize("shrinkage", [0.0, 0.3])
@pytest.mark.parametrize("kind", [Whitening, ZCA, Standardization])
def test_the_gaussian_is_that_of_the_covariance(kind, shrinkage):
    covariance = np.cov(X.T)
    if kind is Standardization:
        fitted = Standardization().fit(X)
        covariance = np.diag(np.diag(covariance))
    else:
        fitted = kind(shrinkage=shrinkage).fit(X)
        mean = np.trace(covariance) / 6
        covariance = (1 - shrinkage) * covariance + shrinkage * mean * np.eye(6)
    expected = multivariate_normal(X.mean(axis=0), covariance).logpdf
    assert_allclose(fitted.score_samples(X), expected(X), rtol=1e-9)


def test_without_all_directions_it_is_the_density_along_those_that_are_kept():
    flat = X.copy()
    flat[:, 0] = flat[:, 1:].sum(axis=1)  # as after a LayerNorm
    whitening, zca = Whitening().fit(flat), ZCA().fit(flat)
    gaussian = multivariate_normal(
        flat.mean(axis=0), np.cov(flat.T), allow_singular=True
    )
    assert_allclose(whitening.score_samples(flat), gaussian.logpdf(flat), rtol=1e-6)
    assert_allclose(zca.score_samples(flat), whitening.score_samples(flat), rtol=1e-9)


def test_an_exponent_that_does_not_whiten_has_no_density():
    fitted = Whitening(exponent=-0.4).fit(X)
    refused("exponent: received -0.4; expected -0.5", fitted.score_samples, X)

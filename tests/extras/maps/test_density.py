"""Log densities: change of variables, integrals, Gaussians, and maps that have none."""

from functools import partial

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal
from sklearn.decomposition import PCA

from extras.export.models import fit_map
from flowbert.errors import UserError
from flowbert.extras.maps.density import log_density
from flowbert.maps import MAPS, Chain, Flow, Standardization, as_map
from helpers import fit, refused, rows

pytestmark = pytest.mark.filterwarnings("ignore::flowbert.errors.FlowbertWarning")

FLOW = "flow:levels=2:depth=2:width=5"
DENSITIES = [
    "whitening",
    "whitening:shrinkage=0.3",
    "zca:shrinkage=0.1",
    "standardization",
    FLOW,
    f"{FLOW}:init=whitening:coupling=affine",
    f"standardization+{FLOW}:coupling=affine",
    f"whitening:exponent=-0.3+{FLOW}+centering+standardization",
]


def mapped(fitted, x):
    """A map that autograd sees."""
    for part in fitted.parts:
        if isinstance(part, Flow):
            x = part.flow_(x[None])[0][0]
        else:
            weight, bias = part.affine()
            x = x @ weight + bias
    return x


@pytest.mark.parametrize("text", DENSITIES)
def test_a_density_is_a_change_of_variables(text):
    x = rows(120, 6)
    fitted = fit_map(text, x)
    z = fitted.transform(x[:9])
    expected = multivariate_normal(np.zeros(6)).logpdf(z)
    for number, row in enumerate(torch.from_numpy(x[:9])):
        jacobian = torch.func.jacrev(partial(mapped, fitted))(row)
        expected[number] += float(torch.linalg.slogdet(jacobian).logabsdet)
    # Products of six 6 x 6 matrices in float64, of condition 1e3 at most.
    assert_allclose(log_density(fitted, x[:9]), expected, rtol=1e-10)
    if isinstance(fitted, Flow):
        assert_allclose(fitted.score_samples(x[:9]), expected, rtol=1e-10)


def test_rows_are_read_in_blocks(monkeypatch):
    x = rows(50, 4).astype(np.float32)
    fitted = fit_map(f"standardization+{FLOW}", x)
    whole = log_density(fitted, x)
    monkeypatch.setattr("flowbert.extras.maps.density.BLOCK_ROWS", 7)
    assert_allclose(log_density(fitted, x), whole, rtol=1e-12)
    assert whole.dtype == np.float64


NONE = [
    None,
    *("whitening-3", "whitening:exponent=-0.4", f"truncation-3+{FLOW}", "raw"),
    *("nulling+standardization", f"{FLOW}+centering", "whitening-3+standardization"),
]


@pytest.mark.parametrize("text", NONE)
def test_a_map_without_a_density(text):
    x = rows(100, 6)
    refused(
        r"map: received .* which has no density",
        log_density,
        None if text is None else fit_map(text, x),
        x,
    )


def test_transformers_of_scikit_learn_have_no_density():
    x = rows(50, 3)
    pca = as_map(PCA(whiten=True)).fit(x)
    refused(r"PCA.* which has no density", log_density, pca, x)
    refused(
        "expected an affine map",
        log_density,
        Chain.of(pca, Standardization().fit(x)),
        x,
    )


@pytest.mark.parametrize("name", sorted(set(MAPS) - {"flow"}))
def test_what_has_a_density_standardizes(name):
    x = rows(200, 6)
    fitted = fit(MAPS.make(name), x)
    try:
        log_density(fitted, x)
    except UserError:
        return
    z = fitted.transform(x)
    assert_allclose(z.mean(axis=0), 0, atol=1e-9)
    assert_allclose(z.var(axis=0, ddof=1), 1, rtol=1e-9)

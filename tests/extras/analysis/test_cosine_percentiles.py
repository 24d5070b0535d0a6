"""Cosines of random pairs: their percentiles, errors and effective dimension."""

import numpy as np
import pytest
import scipy.stats

from flowbert.extras.analysis.cosine_percentiles import cosine_percentiles
from helpers import refused, rows


@pytest.mark.parametrize("dim", [3, 64])
def test_percentiles_of_a_gaussian(dim):
    found = cosine_percentiles(np.random.default_rng(dim).normal(size=(4000, dim)))
    # The cosine of two directions is Student's t with D - 1 degrees of freedom, on the sphere.
    t = scipy.stats.t(dim - 1).ppf(0.999)
    expected = t / np.sqrt(t**2 + dim - 1)
    assert abs(found["p99.9"] - expected) < 5 * found["error"]
    # The standard error of the mean square of 100,000 cosines is below 1%.
    assert found["effective_dim"] == pytest.approx(dim, rel=0.05)


def test_the_standard_error_is_the_spread_over_seeds():
    x = np.random.default_rng(0).normal(size=(600, 8))
    drawn = [cosine_percentiles(x, seed) for seed in range(40)]
    spread = np.std([each["p99.9"] for each in drawn], ddof=1)
    mean = np.mean([each["error"] for each in drawn])
    # A standard deviation of 40 values is within 45% in 999 of 1000 cases.
    assert spread == pytest.approx(mean, rel=0.45)


def test_all_pairs_of_few_vectors():
    x = rows(60, 7)
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    cosines = (unit @ unit.T)[np.triu_indices(len(x), 1)]
    found = cosine_percentiles(x)
    for percentile in (50, 95, 99, 99.9):
        expected = np.percentile(cosines, percentile)
        assert found[f"p{percentile:g}"] == pytest.approx(expected, abs=1e-6)
    # The participation ratio; of the pairs, those of a vector with itself are left out: 1 in N.
    values = np.linalg.eigvalsh(unit.T @ unit / len(x))
    ratio = values.sum() ** 2 / (values**2).sum()
    inverse = (len(x) / ratio - 1) / (len(x) - 1)
    assert found["effective_dim"] == pytest.approx(1 / inverse, rel=1e-5)


def test_one_vector_has_no_pairs():
    refused("vectors: received 1; expected 2", cosine_percentiles, np.ones((1, 4)))

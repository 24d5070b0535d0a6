"""Measures of a set of vectors: closed forms, invariances, parity with slow computations."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import skew

from flowbert.extras.analysis import Sample
from flowbert.extras.analysis.isotropy import random_pairs, space_measures
from flowbert.extras.analysis.neighbours import hubness
from flowbert.tasks.measures import (
    effective_rank,
    isoscore,
    participation_ratio,
    partition_isotropy,
    spectrum,
)
from helpers import normal

OF_EIGENVALUES = (effective_rank, participation_ratio, isoscore)


def test_spectrum_is_that_of_the_covariance():
    x = normal(400, 6) * torch.arange(1.0, 7.0, dtype=torch.float64) + 100
    expected = torch.linalg.eigvalsh(torch.cov(x.T, correction=0)).flip(0)
    torch.testing.assert_close(spectrum(x), expected)
    torch.testing.assert_close(spectrum(x.numpy()), expected)


@pytest.mark.parametrize("count", [1, 3, 8])
def test_equal_variance_in_some_directions(count):
    values = torch.zeros(8, dtype=torch.float64)
    values[:count] = 2.5
    assert effective_rank(values) == pytest.approx(count)
    assert participation_ratio(values) == pytest.approx(count)
    # The paper's test: k of n directions used alike give (k - 1) / (n - 1).
    assert isoscore(values) == pytest.approx((count - 1) / 7)


def test_no_variance_has_no_measure():
    assert all(math.isnan(measure(torch.zeros(3))) for measure in OF_EIGENVALUES)


def test_invariances():
    x = normal(300, 6) * torch.arange(1.0, 7.0, dtype=torch.float64) + 1
    rotation = torch.linalg.qr(normal(6, 6, seed=1)).Q
    expected = space_measures(x)
    assert space_measures(x @ rotation) == pytest.approx(expected)
    scaled = space_measures(7 * x)
    assert scaled.pop("partition_isotropy") < expected.pop("partition_isotropy")
    assert scaled == pytest.approx(expected)
    for measure in OF_EIGENVALUES:
        assert measure(spectrum(x + 50)) == pytest.approx(measure(spectrum(x)))


def test_partition_function():
    # One point at distance 2 on an axis: Z is e^2 and e^-2 along it and 1 across.
    assert partition_isotropy(np.array([[2.0, 0.0]])) == pytest.approx(math.exp(-4))
    assert partition_isotropy(normal(400, 6) + 1000) == 0.0  # no overflow


def test_cosines_of_all_pairs():
    x = normal(500, 6).numpy() + 0.3
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    cosines = unit @ unit.T
    (found,) = random_pairs(Sample(vectors={"raw": torch.tensor(x)})).to_dict("records")
    pairs = cosines[np.triu_indices(500, 1)]
    assert found["p99.9"] == pytest.approx(np.percentile(pairs, 99.9))
    assert found["effective_dim"] == pytest.approx(1 / np.mean(pairs**2))
    np.fill_diagonal(cosines, -2)
    occurrences = np.bincount(np.argsort(-cosines)[:, :10].ravel(), minlength=500)
    assert hubness(x) == pytest.approx(skew(occurrences))
    assert math.isnan(hubness(torch.cat([torch.eye(11), torch.zeros(1, 11)])))

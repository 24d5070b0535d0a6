"""Measures against scipy, direct sums and their invariances."""

import math

import numpy as np
import pytest
import scipy.stats
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from flowbert.tasks.measures import (
    ResampledSpearman,
    alignment,
    mean_cosine,
    spearman,
    undefined_reason,
    uniformity,
)

VALUES = st.lists(st.integers(0, 6), min_size=2, max_size=40)


@settings(deadline=None)
@given(VALUES, st.randoms(use_true_random=False))
def test_spearman_equals_scipy_with_ties(values, random):
    x = np.array(values, dtype=np.float64)
    y = np.array(random.sample(values, len(values)), dtype=np.float64)
    if undefined_reason(x, y):
        assert math.isnan(spearman(x, y))
    else:
        # Both sum at most 40 products of ranks below 40 in float64.
        assert spearman(x, y) == pytest.approx(
            scipy.stats.spearmanr(x, y).statistic, abs=1e-13
        )


def test_spearman_is_exact_on_large_tied_data():
    # 150,000 pairs with six levels: sums of ranks beyond 32 bits.
    rng = np.random.default_rng(0)
    x = rng.integers(0, 6, 150_000).astype(np.float64)
    y = x + rng.integers(0, 9, len(x))
    expected = pytest.approx(scipy.stats.spearmanr(x, y).statistic, abs=1e-10)
    assert spearman(x, y) == expected
    once = np.ones((1, len(x)), dtype=np.int32)
    assert ResampledSpearman([x], y)(once) == expected


@pytest.fixture(scope="module")
def vectors():
    return torch.randn(700, 5, generator=torch.Generator().manual_seed(0))


def test_uniformity_equals_the_sum_over_all_pairs(vectors):
    unit = torch.nn.functional.normalize(vectors.double(), dim=1)
    squared = torch.pdist(unit).square()
    expected = float((-2 * squared).exp().mean().log())
    assert uniformity(vectors) == pytest.approx(expected, rel=1e-12)
    # Products of float32 are off by 2^-24 x D, inside an exponential of slope at most 4.
    bound = 4 * 5 * 2**-24
    assert uniformity(vectors, dtype=torch.float32) == pytest.approx(
        expected, abs=bound
    )


@pytest.mark.parametrize("measure", [uniformity, mean_cosine])
def test_measures_do_not_see_lengths_and_rotations(measure, vectors):
    rotation = torch.linalg.qr(torch.randn(5, 5, dtype=torch.float64)).Q
    lengths = torch.linspace(0.1, 9, len(vectors), dtype=torch.float64)[:, None]
    rotated = lengths * (vectors.double() @ rotation)
    assert measure(rotated) == pytest.approx(measure(vectors), rel=1e-9)


def test_known_values():
    x = torch.tensor([[1.0, 0.0], [0.0, 3.0]])
    assert alignment(x, x) == 0
    assert alignment(x, -2 * x) == pytest.approx(4)
    assert alignment(x[:1], x[1:]) == pytest.approx(2)
    assert mean_cosine(x) == pytest.approx(0)
    assert mean_cosine(torch.ones(4, 3)) == pytest.approx(1)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, 3.0])
def test_what_is_undefined_is_nan(wrong):
    x = np.array([3.0, wrong, 3.0])
    assert math.isnan(spearman(x, np.arange(3.0)))
    assert undefined_reason(x, np.arange(3.0))
    # Too few vectors, or one without direction.
    for rows in (torch.empty(0, 3), torch.ones(1, 3), torch.zeros(3, 3)):
        assert math.isnan(uniformity(rows))
        assert math.isnan(mean_cosine(rows))
        assert math.isnan(alignment(rows[:0], rows[:0]))


def test_wrong_shapes():
    with pytest.raises(ValueError, match=r"\(3,\)"):
        uniformity(torch.ones(3))

"""Cosines of random pairs: their percentiles, errors and effective dimension."""

from typing import Any

import numpy as np
import pytest
import scipy.stats

from flowbert.errors import UserError
from flowbert.maps import Cosines, Output, RandomPairs, read_map_file, save_map
from helpers import refused, rows


def all_cosines(x):
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    return np.asarray((unit @ unit.T)[np.triu_indices(len(x), 1)])


@pytest.mark.parametrize("dim", [3, 64])
def test_percentiles_of_a_gaussian(dim):
    pairs = RandomPairs.of(np.random.default_rng(dim).normal(size=(4000, dim)))
    # The cosine of two directions is Student's t with D - 1 degrees of freedom, on the sphere.
    t = scipy.stats.t(dim - 1).ppf(0.999)
    expected = t / np.sqrt(t**2 + dim - 1)
    assert abs(pairs.cosine(99.9) - expected) < 5 * pairs.standard_error()
    # The standard error of the mean square of 100,000 cosines is below 1%.
    assert pairs.effective_dim == pytest.approx(dim, rel=0.05)


def test_the_standard_error_is_the_spread_over_seeds():
    x = np.random.default_rng(0).normal(size=(600, 8))
    drawn = [RandomPairs.of(x, seed) for seed in range(40)]
    spread = np.std([each.cosine(99.9) for each in drawn], ddof=1)
    mean = np.mean([each.standard_error() for each in drawn])
    # A standard deviation of 40 values is within 45% in 999 of 1000 cases.
    assert spread == pytest.approx(mean, rel=0.45)


@pytest.mark.parametrize("bits", [False, True])
def test_a_percentile_is_a_rank(bits):
    x = np.where(rows(60, 7) > 3, 1.0, -1.0) if bits else rows(60, 7)
    cosines, pairs = all_cosines(x), RandomPairs.of(x)
    at = np.array([-1.1, *np.linspace(-1, 1, 23), 1.1])
    if bits:
        at = np.unique(cosines.round(6))  # ties
        cosines = cosines.round(6)
    expected = [scipy.stats.percentileofscore(cosines, c, "mean") for c in at]
    # The steps are 0.1, half of which an edge of equal cosines may be off.
    got = np.array([pairs.percentile(c) for c in at])
    np.testing.assert_allclose(got, expected, atol=0.15)
    assert np.array_equal(pairs.percentile(at[None]), got[None])
    assert np.all(np.diff(got) >= 0)


def test_the_effective_dimension_is_the_participation_ratio():
    x = rows(300, 6)
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    values = np.linalg.eigvalsh(unit.T @ unit / len(x))
    ratio = values.sum() ** 2 / (values**2).sum()
    # Of the pairs, those of a vector with itself are left out: 1 in N.
    own = (len(x) / ratio - 1) / (len(x) - 1)
    assert RandomPairs.of(x).effective_dim == pytest.approx(1 / own, rel=1e-5)


@pytest.mark.parametrize("output", [Output(), Output(4), Output(None, True, "binary")])
def test_equal_rows_count_once(output, tmp_path):
    x, mapped = rows(50, 6), rows(50, 5, seed=1)
    once = Cosines.of(x, mapped, output)
    twice = Cosines.of(np.tile(x, (3, 1)), np.tile(mapped, (3, 1)), output)
    assert np.array_equal(once.after.quantiles, twice.after.quantiles)
    assert once.after.pairs == 50 * 49 // 2
    save_map(None, tmp_path / "raw", cosines=once)
    loaded: Any = read_map_file(tmp_path / "raw")[2]
    assert np.array_equal(loaded.before.quantiles, once.before.quantiles)
    assert loaded.after.row() == once.after.row()
    loaded.check_output(output, 5)
    with pytest.raises(UserError, match="3 dimensions, but the model has those of"):
        loaded.check_output(Output(3), 5)


def test_one_sentence_has_no_pairs():
    x = np.ones((9, 4))
    refused("sentences: received 1 distinct", Cosines.of, x, x)

"""Spearman equals scipy, ties and all, and never gives a number where there is none."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from scipy.stats import rankdata, spearmanr

from flowbert.errors import FlowbertWarning
from flowbert.metrics import spearman
from flowbert.metrics.spearman import mid_ranks


@pytest.mark.parametrize(("pairs", "levels"), [(2, 1000), (50, 3), (1000, 6), (5000, 10**9), (150_000, 6)])
def test_equals_scipy(pairs: int, levels: int) -> None:
    rng = np.random.default_rng(pairs)
    gold = rng.integers(0, levels, pairs).astype(float)
    predicted = np.round(gold / levels + rng.normal(size=pairs), 3)
    expected = float(spearmanr(predicted, gold).statistic)
    assert spearman(predicted, gold) == pytest.approx(expected, abs=1e-12)
    assert spearman(torch.tensor(predicted), torch.tensor(gold)) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("values", [1, 2, 7, 1000])
def test_mid_ranks_are_those_of_scipy(values: int) -> None:
    rng = np.random.default_rng(values)
    for size in (0, 1, 2, 500):
        x = rng.integers(-values, values, size) * np.array(0.5)
        np.testing.assert_array_equal(mid_ranks(x), rankdata(x))
        np.testing.assert_array_equal(mid_ranks(np.sort(x)[::-1]), rankdata(np.sort(x)[::-1]))


def test_large_tied_data_does_not_overflow() -> None:
    gold = np.tile(np.arange(6.0), 25_000)
    assert spearman(gold * 2, gold) == 1.0
    assert spearman(-gold, gold) == -1.0


@pytest.mark.parametrize(
    ("predicted", "gold", "message"),
    [
        ([1.0, 1.0, 1.0], [1.0, 2.0, 3.0], "all 3 predictions are 1"),
        ([1.0, 2.0, 3.0], [4.0, 4.0, 4.0], "all 3 target are 4"),
        ([1.0, math.nan, 3.0], [1.0, 2.0, 3.0], "1 of 3 predictions are NaN or infinite"),
        ([1.0, 2.0, 3.0], [1.0, math.inf, 3.0], "1 of 3 target"),
        ([1.0], [1.0], "1 pairs; at least 2"),
        ([], [], "0 pairs"),
    ],
)
def test_no_figure_is_nan_with_a_warning(predicted: Sequence[float], gold: Sequence[float], message: str) -> None:
    with pytest.warns(FlowbertWarning, match=message):
        assert math.isnan(spearman(np.array(predicted), np.array(gold)))


def test_shapes_are_checked() -> None:
    with pytest.raises(ValueError, match="3 values and target has 2"):
        spearman(np.zeros(3), np.zeros(2))
    with pytest.raises(ValueError, match=r"predictions has the shape \(3, 1\)"):
        spearman(np.zeros((3, 1)), np.zeros(3))

"""Spearman on resamples equals scipy's on the repeated pairs, however many values are equal."""

import numpy as np
import pytest
from scipy.stats import rankdata

from flowbert.tasks.rank_resampling import ResampledSpearman
from flowbert.tasks.resampling import Floats


def expected(x: Floats, y: Floats) -> float:
    ranks = rankdata(x) - (len(x) + 1) / 2, rankdata(y) - (len(y) + 1) / 2
    norms = [each @ each for each in ranks]
    return float(ranks[0] @ ranks[1] / np.sqrt(norms[0] * norms[1])) if all(norms) else np.nan


@pytest.mark.parametrize("pairs", [1, 2, 3, 20, 97])
@pytest.mark.parametrize("target_levels", [1, 2, 5, 10**6])
def test_any_number_of_equal_values(pairs: int, target_levels: int) -> None:
    rng = np.random.default_rng(pairs)
    target = rng.integers(0, target_levels, pairs) / 7
    few, many = rng.normal(size=pairs), rng.integers(0, max(1, pairs // 3), pairs) - 0.5
    few[: pairs // 4] = few[pairs // 4 : 2 * (pairs // 4)]  # pairs of equal values
    half = np.repeat(rng.normal(size=pairs // 2 + 1), 2)[:pairs]
    methods = [rng.normal(size=pairs), few, half, many, target, np.zeros(pairs), np.full(pairs, np.nan)]
    counts = rng.multinomial(pairs, np.full(pairs, 1 / pairs), size=30).astype(np.int32)
    found = ResampledSpearman(methods, target)(counts)
    for values, figures in zip(methods[:-1], found, strict=False):
        each = [expected(np.repeat(values, row), np.repeat(target, row)) for row in counts]
        np.testing.assert_allclose(figures, each, atol=1e-12)
    assert np.isnan(found[-1]).all()

"""Resamples as multiplicities: the same figures as computing on the drawn items."""

import numpy as np
import pytest

from flowbert.tasks.bootstrap import Counts, ResampledSpearman, resample_blocks
from flowbert.tasks.measures import spearman


def draws(
    strata: tuple[int, ...] = (30, 50),
    resamples: int = 40,
    seed: int = 0,
    values: int = 80,
) -> Counts:
    blocks = resample_blocks("task", strata, values, resamples, seed)
    return np.concatenate([block.counts() for block in blocks])


def test_each_stratum_is_drawn_as_often_as_it_has_units() -> None:
    counts = draws()
    assert counts.shape == (40, 80)
    assert (counts[:, :30].sum(axis=1) == 30).all()
    assert (counts[:, 30:].sum(axis=1) == 50).all()


def test_draws_depend_on_the_seed_and_not_on_who_asks() -> None:
    assert np.array_equal(draws(), draws())
    assert not np.array_equal(draws(), draws(seed=1))
    # Blocks are numbered: the first resamples do not depend on how many follow.
    many = draws(values=20_000, resamples=9)
    assert np.array_equal(many[:3], draws(values=20_000, resamples=3))


@pytest.mark.parametrize("levels", [3, 20, 10**6])
def test_spearman_on_multiplicities_equals_spearman_on_the_drawn_pairs(
    levels: int,
) -> None:
    rng = np.random.default_rng(levels)
    gold = rng.integers(0, 6, 80).astype(np.float64)
    methods = [np.round(gold + rng.normal(size=80) * 3, 6) for _ in range(2)]
    methods.append(rng.integers(0, levels, 80).astype(np.float64))
    counts = draws(strata=(80,))
    found = ResampledSpearman(methods, gold)(counts)
    for row, values in enumerate(methods):
        for resample, drawn in zip(found[row], counts, strict=True):
            expected = spearman(np.repeat(values, drawn), np.repeat(gold, drawn))
            assert resample == pytest.approx(expected, abs=1e-12)


def test_a_method_without_finite_values_has_no_figures() -> None:
    gold = np.arange(10.0)
    found = ResampledSpearman([np.full(10, np.nan), gold], gold)(draws(strata=(10,)))
    assert np.isnan(found[0]).all()
    assert found[1] == pytest.approx(1)


def test_a_resample_of_one_value_has_no_correlation() -> None:
    counts = np.array([[3, 0, 0], [1, 1, 1]], dtype=np.int32)
    found = ResampledSpearman([np.arange(3.0)], np.arange(3.0))(counts)
    assert np.isnan(found[0, 0])
    assert found[0, 1] == pytest.approx(1)

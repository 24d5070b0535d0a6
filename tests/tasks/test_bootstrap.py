"""Resamples as multiplicities: the same figures as computing on the drawn items."""

import numpy as np
import pytest

from flowbert.seeding import Stream
from flowbert.tasks import load_task
from flowbert.tasks.bootstrap import Counts, ResampledSpearman, draw_counts
from flowbert.tasks.measures import spearman


def draws(strata: tuple[int, ...] = (30, 50), seed: int = 0) -> Counts:
    return draw_counts(strata, 40, Stream(seed, "bootstrap", of="task"))


def test_each_stratum_is_drawn_as_often_as_it_has_units() -> None:
    counts = draws()
    assert counts.shape == (40, 80)
    assert (counts[:, :30].sum(axis=1) == 30).all()
    assert (counts[:, 30:].sum(axis=1) == 50).all()


def test_draws_depend_on_the_seed_and_not_on_who_asks() -> None:
    assert np.array_equal(draws(), draws())
    assert not np.array_equal(draws(), draws(seed=1))
    # Blocks are numbered: the first ones do not depend on how many follow.
    task = load_task("SAMPLE")
    items = {"one": np.random.default_rng(0).normal(size=task.count)}
    block = 65  # of 65,536 values, 1,000 each
    for metric, many in task.resample(items, 2 * block + 1).items():
        assert np.array_equal(many[:, :block], task.resample(items, block)[metric])


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


def test_a_resample_of_one_value_has_no_correlation() -> None:
    counts = np.array([[3, 0, 0], [1, 1, 1]], dtype=np.int32)
    found = ResampledSpearman([np.arange(3.0)], np.arange(3.0))(counts)
    assert np.isnan(found[0, 0])
    assert found[0, 1] == pytest.approx(1)

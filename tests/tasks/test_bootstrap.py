"""Resamples as multiplicities have the scores of the drawn items."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from flowbert.seeding import Stream
from flowbert.tasks import PairTask, load_task
from flowbert.tasks.measures import ResampledSpearman, draw_counts, spearman


def draws(strata=(30, 50), seed=0):
    return draw_counts(strata, 40, Stream(seed, "bootstrap", of="task"))


def test_each_stratum_is_drawn_as_often_as_it_has_units():
    counts = draws()
    assert counts.shape == (40, 80)
    assert (counts[:, :30].sum(axis=1) == 30).all()
    assert (counts[:, 30:].sum(axis=1) == 50).all()


def test_draws_depend_on_the_seed_and_not_on_who_asks():
    assert np.array_equal(draws(), draws())
    assert not np.array_equal(draws(), draws(seed=1))
    # Blocks are numbered: the first ones do not depend on how many follow.
    task = load_task("SAMPLE")
    items = {"one": np.random.default_rng(0).normal(size=task.count)}
    block = 65  # of 65,536 values, 1,000 each
    for metric, many in task.resample(items, 2 * block + 1).items():
        assert np.array_equal(many[:, :block], task.resample(items, block)[metric])


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 12), st.sampled_from([1, 2, 4, 10**6]), st.integers(0, 2**31))
def test_a_resample_has_the_correlation_of_the_drawn_pairs(size, levels, seed):
    rng = np.random.default_rng(seed)
    gold = rng.integers(0, 4, size).astype(np.float64)  # constant ones, too
    methods = [rng.integers(0, levels, size) / 10 for _ in range(2)]
    counts = draw_counts([size], 6, Stream(seed, "bootstrap"))
    found = ResampledSpearman(methods, gold)(counts)
    for values, correlations in zip(methods, found, strict=True):
        for drawn, correlation in zip(counts, correlations, strict=True):
            x, y = np.repeat(values, drawn), np.repeat(gold, drawn)
            # Sums of ranks are whole numbers; four operations round.
            np.testing.assert_allclose(correlation, spearman(x, y), atol=1e-15)


class OfGold(PairTask):
    """A custom task: its score knows nothing of resamples."""

    metrics = (("agreement", "all"),)
    headline = "agreement"
    scored_with = ("gold",)

    def __init__(self, other):
        super().__init__(other.name, *other.pairs())
        self.gold = other.gold

    def score(self, items):
        return {("agreement", "all"): spearman(items, self.gold)}


def test_any_task_is_scored_on_drawn_items():
    task = load_task("SAMPLE")
    rng = np.random.default_rng(0)
    items = {name: rng.integers(0, 9, task.count) / 9 for name in "ab"}
    (found,) = OfGold(task).resample(items, 20).values()
    # Sums of ranks are whole numbers; four operations round.
    expected = task.resample(items, 20)["spearman", "all"]
    np.testing.assert_allclose(found, expected, atol=1e-15)

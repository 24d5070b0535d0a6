"""Resamples as multiplicities: the same scores as computing on the drawn items."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from flowbert.data.sts import STSData, Subset
from flowbert.seeding import Stream
from flowbert.tasks import STS, load_task
from flowbert.tasks.bootstrap import Counts, draw_counts
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


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(2, 12), min_size=1, max_size=3),
    st.sampled_from([1, 2, 4, 10**6]),
    st.integers(0, 2**32 - 1),
)
def test_the_fast_path_equals_the_score_of_each_resample(
    sizes: list[int], levels: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    subsets = []
    for size in sizes:
        texts = ("",) * size
        gold = rng.integers(0, 4, size).astype(np.float64)  # constant ones, too
        subsets.append(Subset("subset", texts, texts, gold))
    task = STS(STSData("drawn", {"test": subsets}))
    items = [rng.integers(0, levels, task.count) / 10 for _ in range(2)]
    weights = draw_counts(sizes, 6, Stream(seed % 2**31, "bootstrap"))
    weights[-1] = 1
    weights[-2] *= rng.integers(0, 2, task.count, dtype=np.int32)  # more pairs left out
    found = task.scorer(items)(weights)
    for method, row in enumerate(items):
        for resample, drawn in enumerate(weights):
            scores = task.score(row, drawn)
            # Ranks are exact; a handful of operations round.
            np.testing.assert_allclose(
                found[:, method, resample],
                list(scores.values()),
                rtol=2e-15,
                atol=1e-15,  # of a mean of correlations near 0
                equal_nan=True,
            )
            whole = spearman(np.repeat(row, drawn), np.repeat(task.gold, drawn))
            np.testing.assert_allclose(scores["spearman", "all"], whole, atol=1e-15)

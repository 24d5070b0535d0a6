"""Resampled queries give the mean of the repeated queries' values."""

import numpy as np
import pytest

from flowbert.errors import UserError
from flowbert.tasks import resampling
from flowbert.tasks.pairs import ScoredPairs
from flowbert.tasks.retrieval_bootstrap import bootstrap_retrieval

QUERIES = 40
GENERATOR = np.random.default_rng(0)
GOOD, POOR = (tuple(np.clip(GENERATOR.normal(mean, 0.2, (2, QUERIES)), 0, 1)) for mean in (0.8, 0.3))
PAIRS = ScoredPairs(
    "T", "test", ("recall@1", "mrr@10"), (np.ones(QUERIES),) * 2, {"good": GOOD, "poor": POOR, "twin": GOOD}
)


def check_against_a_loop(resamples: int, seed: int) -> None:
    found = bootstrap_retrieval(PAIRS, resamples=resamples, seed=seed)
    blocks = resampling.blocks("T", QUERIES, resamples, seed)
    counts = np.concatenate([block.multiplicities([QUERIES]) for block in blocks])
    for place, metric in enumerate(PAIRS.subsets):
        for row, values in enumerate((GOOD, POOR, GOOD)):
            expected = [np.repeat(values[place], drawn).mean() for drawn in counts]
            for aggregation in range(3):
                np.testing.assert_allclose(found[metric].values[row, aggregation], expected, atol=1e-12)
                assert found[metric].points[row, aggregation] == values[place].mean()


def test_replicates_are_the_means_of_the_repeated_queries() -> None:
    check_against_a_loop(25, 3)


def test_several_blocks_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resampling, "_BLOCK_VALUES", 7 * QUERIES)
    check_against_a_loop(25, 3)


def test_methods_are_paired() -> None:
    found = bootstrap_retrieval(PAIRS, resamples=500)["mrr@10"]
    same = found.difference("good", "twin")
    assert (same.value, same.low, same.high) == (0, 0, 0)
    assert found.difference("good", "poor").low > 0


@pytest.mark.parametrize("methods", [2, 3, 5, 9, 17])
def test_equal_methods_differ_by_exactly_nothing_however_many_there_are(methods: int) -> None:
    values = tuple(GENERATOR.uniform(size=(4, 1001)))
    predicted = {f"m{number}": tuple(each.copy() for each in values) for number in range(methods)}
    pairs = ScoredPairs("T", "test", ("a", "b", "c", "d"), values, predicted)
    for replicates in bootstrap_retrieval(pairs, resamples=130).values():
        assert (replicates.values == replicates.values[:1]).all()
        assert (replicates.points == replicates.points[:1]).all()


def test_resamples_depend_on_seed_and_task_not_on_methods() -> None:
    both = bootstrap_retrieval(PAIRS, resamples=20)["mrr@10"].values
    np.testing.assert_array_equal(bootstrap_retrieval(PAIRS, resamples=20)["mrr@10"].values, both)
    alone = ScoredPairs("T", "test", PAIRS.subsets, PAIRS.gold, {"poor": POOR})
    np.testing.assert_array_equal(bootstrap_retrieval(alone, resamples=20)["mrr@10"].values[0], both[1])
    assert (bootstrap_retrieval(PAIRS, resamples=20, seed=1)["mrr@10"].values != both).any()
    other = ScoredPairs("U", "test", PAIRS.subsets, PAIRS.gold, PAIRS.predicted)
    assert (bootstrap_retrieval(other, resamples=20)["mrr@10"].values != both).any()


def test_interval_covers_a_known_mean() -> None:
    covered = []
    for seed in range(300):
        values = np.random.default_rng(seed).uniform(size=60)
        pairs = ScoredPairs("T", "test", ("mrr@10",), (np.ones(60),), {"m": (values,)})
        covered.append(bootstrap_retrieval(pairs, resamples=400, seed=seed)["mrr@10"].interval("m").contains(0.5))
    assert 0.90 < np.mean(covered) < 0.985  # 60 queries: a percentile interval is a little narrow


def test_interval_covers_a_known_difference() -> None:
    """Hits at rank 1 of two methods that err on the same hard queries: the truth is 0.7 - 0.5."""
    covered = 0
    for seed in range(600):
        hardness = np.random.default_rng(seed).uniform(size=200)
        hits = {name: ((hardness < share).astype(np.float64),) for name, share in (("strong", 0.7), ("weak", 0.5))}
        pairs = ScoredPairs("T", "test", ("recall@1",), (np.ones(200),), hits)
        found = bootstrap_retrieval(pairs, resamples=400, seed=seed)["recall@1"]
        covered += found.difference("strong", "weak").contains(0.2)
    assert 0.92 <= covered / 600 <= 0.98


@pytest.mark.parametrize(
    ("options", "message"),
    [({"resamples": 0}, "resamples is 0; allowed: a whole number of at least 1"), ({"seed": -1}, "seed is -1")],
)
def test_bad_numbers(options: dict[str, int], message: str) -> None:
    with pytest.raises(UserError, match=message):
        bootstrap_retrieval(PAIRS, **options)


def test_no_method() -> None:
    with pytest.raises(UserError, match="T: no method to resample; allowed: at least one"):
        bootstrap_retrieval(ScoredPairs("T", "test", PAIRS.subsets, PAIRS.gold, {}))

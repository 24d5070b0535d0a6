"""Resampled queries give the mean of the repeated queries' values."""

import numpy as np
import pytest

from flowbert.errors import UserError
from flowbert.evaluation.pairs import ScoredPairs
from flowbert.evaluation.retrieval_bootstrap import bootstrap_retrieval

QUERIES = 40
GENERATOR = np.random.default_rng(0)
GOOD, POOR = (tuple(np.clip(GENERATOR.normal(mean, 0.2, (2, QUERIES)), 0, 1)) for mean in (0.8, 0.3))
PAIRS = ScoredPairs(
    "T", "test", ("recall@1", "mrr@10"), (np.ones(QUERIES),) * 2, {"good": GOOD, "poor": POOR, "twin": GOOD}
)


def test_replicates_are_the_means_of_the_repeated_queries() -> None:
    found = bootstrap_retrieval(PAIRS, resamples=25, seed=3)
    counts = np.random.default_rng(3).multinomial(QUERIES, np.full(QUERIES, 1 / QUERIES), size=25)
    for place, metric in enumerate(PAIRS.subsets):
        for row, values in enumerate((GOOD, POOR, GOOD)):
            expected = [np.repeat(values[place], drawn).mean() for drawn in counts]
            np.testing.assert_allclose(found[metric].values[row, 1], expected, atol=1e-12)
            assert found[metric].points[row, 0] == pytest.approx(values[place].mean(), abs=1e-12)


def test_methods_are_paired() -> None:
    found = bootstrap_retrieval(PAIRS, resamples=500)["mrr@10"]
    same = found.difference("good", "twin")
    assert (same.value, same.low, same.high) == (0, 0, 0)
    assert found.difference("good", "poor").low > 0


def test_interval_covers_a_known_mean() -> None:
    covered = []
    for seed in range(300):
        values = np.random.default_rng(seed).uniform(size=60)
        pairs = ScoredPairs("T", "test", ("mrr@10",), (np.ones(60),), {"m": (values,)})
        covered.append(bootstrap_retrieval(pairs, resamples=400, seed=seed)["mrr@10"].interval("m").contains(0.5))
    assert 0.90 < np.mean(covered) < 0.985  # 60 queries: a percentile interval is a little narrow


def test_no_resamples() -> None:
    with pytest.raises(UserError, match="resamples is 0"):
        bootstrap_retrieval(PAIRS, resamples=0)

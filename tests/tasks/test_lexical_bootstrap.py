"""Edit distances resampled with the pairs: equal to scipy on every resample, over all pairs of the split."""

import math

import numpy as np
import pytest
from scipy.stats import spearmanr

from flowbert.errors import UserError
from flowbert.tasks import resampling
from flowbert.tasks.bootstrap import bootstrap
from flowbert.tasks.lexical import lexical_figures
from flowbert.tasks.lexical_bootstrap import bootstrap_lexical
from flowbert.tasks.pairs import ScoredPairs

SIZES = (40, 15, 25)
METRIC = "edit_distance_words"
GENERATOR = np.random.default_rng(0)
GOLD = tuple(np.round(GENERATOR.uniform(0, 5, size)) for size in SIZES)
RAW = tuple(scores + GENERATOR.normal(size=len(scores)) for scores in GOLD)
TIED = tuple(np.round(scores + 2 * GENERATOR.normal(size=len(scores))) for scores in GOLD)
# Subsets of unlike lengths of sentences: over all pairs the figure is another one than within the subsets.
DISTANCES = np.round(GENERATOR.uniform(0, 6, sum(SIZES))) + np.repeat((0, 9, 20), SIZES)
PAIRS = ScoredPairs("T", "test", ("a", "b", "c"), GOLD, {"raw": RAW, "tied": TIED, "twin": RAW})


def test_every_resample_equals_scipy_over_all_pairs() -> None:
    found = bootstrap_lexical(PAIRS, DISTANCES, "words", resamples=30, seed=3)[METRIC]
    assert (found.task, found.methods, found.pairs) == (f"T {METRIC}", ("gold", "raw", "tied", "twin"), 80)
    counts = np.concatenate([b.multiplicities(SIZES) for b in resampling.blocks("T", 80, 30, 3)])
    values = [np.concatenate(each) for each in (GOLD, RAW, TIED, RAW)]
    for number, drawn in enumerate(counts):
        rows = np.repeat(np.arange(80), drawn)
        assert [len(part) for part in np.split(rows, np.searchsorted(rows, (40, 55)))] == list(SIZES)
        expected = [spearmanr(each[rows], DISTANCES[rows]).statistic for each in values]
        for aggregation in range(3):
            np.testing.assert_allclose(found.values[:, aggregation, number], expected, atol=1e-9)


def test_points_are_the_figures_and_differences_are_theirs_under_every_aggregation() -> None:
    found = bootstrap_lexical(PAIRS, DISTANCES, "words", resamples=50)[METRIC]
    figures = {each.method: each.with_edit_distance for each in lexical_figures(PAIRS, DISTANCES)}
    for aggregation in ("all", "mean", "wmean"):
        for method, figure in figures.items():
            assert found.interval(method, aggregation).value == figure
        assert found.difference("raw", "tied", aggregation).value == figures["raw"] - figures["tied"]
    same = found.difference("raw", "twin")
    assert (same.value, same.low, same.high) == (0, 0, 0)


def test_resamples_are_those_of_the_figures_with_gold() -> None:
    """With the gold score as the distance, the figure is Spearman with gold on the same resamples."""
    lexical = bootstrap_lexical(PAIRS, PAIRS.concatenated(), "words", resamples=40, seed=5, threads=2)[METRIC]
    plain = bootstrap(PAIRS, resamples=40, seed=5)
    np.testing.assert_array_equal(lexical.values[1:, 0], plain.values[:, 0])
    np.testing.assert_allclose(lexical.values[0], 1, atol=1e-12)


def test_coverage_of_a_known_difference() -> None:
    """Distance and similarities are jointly normal, so Spearman's rho is 6 / pi asin(r / 2) in the population."""
    strengths = (-0.7, -0.5)
    truth = [6 / math.pi * math.asin(r / 2) for r in strengths]
    generator = np.random.default_rng(4)
    covered = 0
    for number in range(400):
        distances = generator.normal(size=200)
        noise = generator.normal(size=(2, 200))
        wordy, free = (r * distances + math.sqrt(1 - r * r) * e for r, e in zip(strengths, noise, strict=True))
        gold = generator.normal(size=200)
        pairs = ScoredPairs("T", "test", ("T",), (gold,), {"wordy": (wordy,), "free": (free,)})
        found = bootstrap_lexical(pairs, distances, "words", resamples=400, seed=number)[METRIC]
        covered += found.difference("wordy", "free").contains(truth[0] - truth[1])
    assert 0.92 <= covered / 400 <= 0.98


def test_bad_arguments() -> None:
    with pytest.raises(UserError, match=r"distances have the shape \(3,\); allowed: \(80,\)"):
        bootstrap_lexical(PAIRS, np.arange(3.0), "words")
    with pytest.raises(UserError, match="resamples is 0; allowed: a whole number of at least 1"):
        bootstrap_lexical(PAIRS, DISTANCES, "words", resamples=0)

"""Bands of gold scores whose counts and medians are known."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowbert.extras.analysis.bands import COSINE_BINS, gold_bands

BAND = ["gold_from", "gold_to", "median"]


def test_counts_and_medians():
    rng = np.random.default_rng(0)
    gold, cosines = rng.integers(0, 11, 1000) / 2, rng.integers(-50, 51, 1000) / 50
    for (low, high, median), bins in gold_bands(gold, cosines).groupby(BAND):
        # A bound belongs to the band above it, the highest one to the last.
        chosen = cosines[(gold >= low) & (gold < high + (high == 5))]
        assert (high - low, median) == (1, np.median(chosen))
        counts, edges = np.histogram(chosen, np.linspace(-1, 1, COSINE_BINS + 1))
        assert bins["pairs"].tolist() == counts.tolist()
        assert bins["cosine_to"].tolist() == edges[1:].tolist()


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0.001, 4.99, (0, 5)), (1, 5, (1, 5)), (3, 98, (0, 100)), (2, 2, (2, 2))],
)
def test_bounds_are_round(low, high, expected):
    frame = gold_bands(np.array([low, high]), np.zeros(2))
    bounds = frame["gold_from"].min(), frame["gold_to"].max()
    assert bounds == pytest.approx(expected)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=9))
def test_every_score_is_in_a_band(scores):
    gold = np.array(scores)
    assert gold_bands(gold, np.zeros(len(gold)))["pairs"].sum() == len(gold)

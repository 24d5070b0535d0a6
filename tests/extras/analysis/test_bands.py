"""Bands of gold scores whose counts and medians are known."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowbert.extras.analysis.bands import COSINE_BINS, gold_bands, gold_bounds

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


def test_pairs_without_cosine_and_bands_without_pairs():
    frame = gold_bands(np.array([0.0, 0.0, 1.0]), np.array([0.3, math.nan, 0.9]))
    bands = frame.groupby(BAND, dropna=False)["pairs"].sum().reset_index()
    assert bands["pairs"].tolist() == [1, 0, 0, 0, 1]
    assert math.isnan(bands["median"][1])
    assert len(frame) == 5 * COSINE_BINS


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.001, 4.99, (0, 5)),
        (1, 5, (1, 5)),
        (3, 98, (0, 100)),
        (2, 2, (2, 2)),
    ],
)
def test_bounds_are_round(low, high, expected):
    bounds = gold_bounds(np.array([low, (low + high) / 2, high]))
    assert (bounds[0], bounds[-1]) == pytest.approx(expected)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=9))
def test_every_score_is_in_a_band(scores):
    gold = np.array(scores)
    bounds = gold_bounds(gold)
    assert bounds[0] <= gold.min()
    assert gold.max() <= bounds[-1]
    assert gold_bands(gold, np.zeros(len(gold)))["pairs"].sum() == len(gold)

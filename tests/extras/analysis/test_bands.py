"""Bands of gold scores whose counts and quartiles are known."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowbert.extras.analysis.bands import COSINE_BINS, gold_bands, gold_bounds


def test_counts_and_quartiles():
    rng = np.random.default_rng(0)
    gold, cosines = rng.uniform(0, 5, 1000), rng.uniform(-1, 1, 1000)
    bands, histogram = gold_bands(gold, cosines).values()
    assert bands["gold_from"].tolist() == [0, 1, 2, 3, 4]
    assert bands["gold_to"].tolist() == [1, 2, 3, 4, 5]
    for band in bands.itertuples():
        chosen = cosines[(gold >= band.gold_from) & (gold < band.gold_to)]
        quartiles = (band.lower_quartile, band.median, band.upper_quartile)
        assert quartiles == tuple(np.percentile(chosen, (25, 50, 75)))
        bins = histogram[histogram["gold_from"] == band.gold_from]
        counts, edges = np.histogram(chosen, np.linspace(-1, 1, COSINE_BINS + 1))
        assert bins["pairs"].tolist() == counts.tolist()
        assert bins["cosine_to"].tolist() == edges[1:].tolist()
        assert band.pairs == len(chosen)


def test_bounds_belong_to_the_band_above_and_the_highest_to_the_last():
    frames = gold_bands(np.arange(6.0), np.array([-1.0, 0, 0, 0, 1, 1]))
    bands, histogram = frames.values()
    assert bands["pairs"].tolist() == [1, 1, 1, 1, 2]
    assert histogram["pairs"].iloc[[0, -1]].tolist() == [1, 2]


def test_pairs_without_cosine_and_bands_without_pairs():
    frames = gold_bands(np.array([0.0, 0.0, 1.0]), np.array([0.3, math.nan, 0.9]))
    bands, histogram = frames.values()
    assert bands["pairs"].tolist() == [1, 0, 0, 0, 1]
    assert math.isnan(bands["median"][1])
    assert len(histogram) == 5 * COSINE_BINS


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
    assert gold_bands(gold, np.zeros(len(gold)))["bands"]["pairs"].sum() == len(gold)

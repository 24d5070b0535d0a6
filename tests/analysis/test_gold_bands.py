"""Gold bands whose counts and quartiles are known."""

import math
import warnings

import numpy as np
import pytest
import torch

from flowbert.analysis import ScoredPairs, gold_bands


def test_every_pair_is_in_one_band_and_one_bin() -> None:
    rng = np.random.default_rng(0)
    gold, cosines = rng.uniform(0, 5, 1000), rng.uniform(-1, 1, 1000)
    found = gold_bands(cosines, gold)
    assert [(band.low, band.high) for band in found] == [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]
    for band in found:
        mine = cosines[(gold >= band.low) & (gold < band.high)]
        assert (band.pairs, sum(band.counts)) == (len(mine), len(mine))
        assert band.counts == np.histogram(mine, np.linspace(-1, 1, len(band.counts) + 1))[0].tolist()
        assert (band.lower, band.median, band.upper) == tuple(np.percentile(mine, (25, 50, 75)))
    assert sum(band.pairs for band in found) == 1000


def test_bounds_belong_to_the_band_above_and_the_highest_to_the_last() -> None:
    gold = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0])
    assert [band.pairs for band in gold_bands(np.zeros(6), gold)] == [1, 1, 1, 1, 2]
    ends = gold_bands(np.array([-1.0, 1.0]), np.array([0.0, 0.0]), bins=4)[0]
    assert ends.counts == [1, 0, 0, 1]


def test_uniform_cosines_have_the_quartiles_of_their_range() -> None:
    (only,) = gold_bands(
        torch.linspace(-1, 1, 2001, dtype=torch.float64), torch.full((2001,), 3.0), (3.0, 3.0), bins=10
    )
    assert (only.lower, only.median, only.upper) == pytest.approx((-0.5, 0.0, 0.5))
    assert max(only.counts) - min(only.counts) <= 2
    assert (only.low, only.high) == (3, 3)


def test_bands_without_pairs_and_pairs_without_cosine() -> None:
    found = gold_bands(np.array([0.3, math.nan, 0.9]), np.array([0.0, 0.0, 1.0]), (0, 1))
    assert [band.pairs for band in found] == [1, 0, 0, 0, 1]
    assert found[1].median is None
    assert found[1].counts == [0] * len(found[0].counts)


def test_pairs_of_vectors_that_are_there() -> None:
    x = torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 3.0]])
    pairs = ScoredPairs.of(np.array([1.0, 4.0]), {"raw": x}, torch.tensor([0, 0]), torch.tensor([1, 2]))
    assert np.asarray(pairs.cosines["raw"]).tolist() == pytest.approx([0, math.sqrt(0.5)])
    assert pairs.gold_range == (1, 4)


@pytest.mark.parametrize(
    ("lowest", "highest", "expected"),
    [(0.001, 4.99, (0, 5)), (1, 5, (1, 5)), (0.02, 0.97, (0, 1)), (0, 1, (0, 1)), (3, 98, (0, 100)), (2, 2, (2, 2))],
)
def test_the_range_is_one_to_read_and_holds_every_score(
    lowest: float, highest: float, expected: tuple[float, float]
) -> None:
    gold = np.array([lowest, (lowest + highest) / 2, highest])
    found = ScoredPairs(gold, {}).gold_range
    assert found == pytest.approx(expected)
    assert sum(band.pairs for band in gold_bands(np.zeros(3), gold, found)) == 3


def test_no_rounding_puts_a_score_out_of_its_range() -> None:
    rng = np.random.default_rng(0)
    for _ in range(2000):
        gold = rng.normal(size=3) * 10 ** rng.uniform(-3, 3)
        assert sum(band.pairs for band in gold_bands(np.zeros(3), gold, ScoredPairs(gold, {}).gold_range)) == 3


def test_wrong_calls() -> None:
    with pytest.raises(ValueError, match="cosines have 2 values and gold has 3; allowed: equal lengths"):
        gold_bands(np.zeros(2), np.zeros(3))
    for gold in (np.array([6.0]), np.array([math.nan])):
        with warnings.catch_warnings(), pytest.raises(ValueError, match=r"gold: received .*; allowed: 0.0 to 5.0"):
            gold_bands(np.zeros(1), gold)
    with pytest.raises(ValueError, match=r"cosines: received 2.0 to 2.0; allowed: -1 to 1"):
        gold_bands(np.array([2.0]), np.array([1.0]))

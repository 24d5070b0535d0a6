"""Cosine and the three aggregations, pair by pair and against scipy."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from flowbert.errors import FlowbertWarning
from flowbert.tasks.protocol import aggregate, cosine


def test_equal_sentences_tie_at_one() -> None:
    x = torch.randn(500, 384, generator=torch.Generator().manual_seed(0))
    assert set(cosine(x, x).tolist()) == {1.0}
    assert set(cosine(x, x * 3).tolist()) == {1.0}


def test_order_of_pairs_changes_nothing() -> None:
    gold, predicted = [np.random.default_rng(i).normal(size=60) for i in range(2)]
    order = np.random.default_rng(2).permutation(60)
    assert aggregate([gold], [predicted]).all == pytest.approx(aggregate([gold[order]], [predicted[order]]).all)


def test_aggregations_equal_scipy() -> None:
    rng = np.random.default_rng(0)
    gold, predicted = ([rng.normal(size=size) for size in (30, 11)] for _ in range(2))
    found = aggregate(gold, predicted)
    each = [spearmanr(x, y).statistic for x, y in zip(gold, predicted, strict=True)]
    assert found.subsets == pytest.approx(each, abs=1e-12)
    assert found.all == pytest.approx(spearmanr(np.concatenate(gold), np.concatenate(predicted)).statistic, abs=1e-12)
    assert found.mean == pytest.approx(np.mean(each), abs=1e-12)
    assert found.wmean == pytest.approx(np.average(each, weights=[30, 11]), abs=1e-12)


def test_a_subset_without_a_figure_is_told_once_asked() -> None:
    gold, constant = np.arange(3.0), np.ones(3)
    with pytest.warns(FlowbertWarning, match="all 3 predictions are 1"):
        found = aggregate([gold, gold], [constant, gold])
    assert math.isnan(found.mean)
    assert math.isnan(found.wmean)
    assert math.isfinite(found.all)
    assert math.isnan(aggregate([gold], [constant], warn=False).all)


def test_numbers_of_subsets_must_agree() -> None:
    with pytest.raises(ValueError, match="1 subsets of gold scores and 0"):
        aggregate([np.zeros(3)], [])

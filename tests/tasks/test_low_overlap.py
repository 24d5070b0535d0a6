"""Pairs with little word overlap: which ones are taken, and what is fitted on and shown."""

import numpy as np
import pytest
from scipy.stats import ks_2samp

from examples.low_overlap import HighOverlap, LowOverlap
from flowbert.data.scored_pairs import load_sts
from flowbert.tasks import load_task


@pytest.fixture(scope="module")
def data():
    return load_sts("SAMPLE")


@pytest.mark.parametrize("kind", [LowOverlap, HighOverlap])
@pytest.mark.parametrize("share", [0.05, 0.1, 0.3])
def test_gold_scores_are_distributed_as_those_of_all_pairs(kind, share, data):
    whole, task = load_task("SAMPLE"), kind(data, share=share)
    assert task.count == round(share * whole.count)
    (subset,) = data.split("test")
    # A bin of pairs, and half a pair that is rounded off.
    widest = np.unique(subset.scores, return_counts=True)[1].min() + 1 / share
    bound = widest / len(subset) + 0.5 / task.count
    assert ks_2samp(task.gold, subset.scores, method="asymp").statistic <= bound

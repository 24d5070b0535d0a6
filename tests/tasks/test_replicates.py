"""Intervals, paired differences, means over seeds and averages over tasks."""

import math

import numpy as np
import pytest

from flowbert.tasks.replicates import Interval, Replicates, average

VALUES = np.random.default_rng(0).normal(size=(3, 400))
FOUND = Replicates("T", ("raw", "zca", "flow"), np.array([0.1, 0.2, 0.3]), VALUES)


def test_the_interval_is_of_percentiles() -> None:
    interval = FOUND.interval("zca")
    assert interval.value == 0.2
    assert (interval.low, interval.high) == pytest.approx(tuple(np.percentile(VALUES[1], [2.5, 97.5])))
    assert interval.dropped == 0


def test_differences_are_paired() -> None:
    itself = FOUND.difference("raw", "raw")
    assert (itself.value, itself.low, itself.high) == (0, 0, 0)
    there, back = FOUND.difference("raw", "zca"), FOUND.difference("zca", "raw")
    assert (there.low, there.high) == pytest.approx((-back.high, -back.low))
    assert there.low == pytest.approx(np.percentile(VALUES[0] - VALUES[1], 2.5))


def test_resamples_without_a_figure_are_dropped_and_counted() -> None:
    values = VALUES.copy()
    values[0, :100], values[1] = np.nan, np.nan
    found = Replicates("T", FOUND.methods, FOUND.points, values)
    assert found.interval("raw").dropped == 100
    assert math.isnan(found.interval("zca").low)
    assert not found.interval("zca").excludes_zero
    assert found.usable() == ("raw", "flow")
    assert found.only(found.usable()).methods == ("raw", "flow")


def test_seeds_are_pooled() -> None:
    pooled = FOUND.pooled({"raw": ["raw"], "both": ["zca", "flow"]})
    assert pooled.methods == ("raw", "both")
    np.testing.assert_allclose(pooled.values[1], VALUES[1:].mean(axis=0))
    assert pooled.points.tolist() == pytest.approx([0.1, 0.25])


def test_average_over_tasks() -> None:
    other = Replicates("U", FOUND.methods, FOUND.points + 0.2, VALUES[:, ::-1])
    mean = average([FOUND, other])
    np.testing.assert_allclose(mean.values, (VALUES + VALUES[:, ::-1]) / 2)
    assert mean.points.tolist() == pytest.approx([0.2, 0.3, 0.4])
    assert mean.name == "Avg"
    with pytest.raises(ValueError, match="tasks T, T: one comes twice; allowed: each once"):
        average([FOUND, FOUND])
    short = Replicates("U", FOUND.methods, FOUND.points, VALUES[:, :7])
    with pytest.raises(
        ValueError, match="U has the methods raw, zca, flow and 7 resamples; needed: raw, zca, flow and"
    ):
        average([FOUND, short])
    with pytest.raises(ValueError, match="no task to average"):
        average([])


def test_text_and_bounds() -> None:
    assert Interval(0.1, -0.05, 0.2).text() == "10.0 [-5.0, 20.0]"
    assert not Interval(0.1, -0.05, 0.2).excludes_zero
    assert Interval(0.1, 0.05, 0.2).excludes_zero
    assert Interval(-0.1, -0.2, -0.05).excludes_zero


def test_an_unknown_method_is_named() -> None:
    with pytest.raises(ValueError, match=r"T: no method 'zcaa'; allowed: raw, zca, flow \(did you mean 'zca'\?\)"):
        FOUND.interval("zcaa")

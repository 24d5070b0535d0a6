"""Estimates, intervals, averages and verdicts."""

import re
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from experiments.small import WordSums
from flowbert.data.scored_pairs import STSData, Subset
from flowbert.experiments import compare
from flowbert.experiments.estimates import Comparison, Estimates
from flowbert.experiments.plan import parse_candidates, plan_experiments
from flowbert.experiments.run import run_experiments
from flowbert.tasks import STS, spearman
from flowbert.vectors import EmbeddingCache
from helpers import refused

SPREAD = np.linspace(-1, 1, 201)


def estimates(values, spreads):
    drawn = [
        value + spread * SPREAD for value, spread in zip(values, spreads, strict=True)
    ]
    return Estimates(np.array(values), np.array(drawn))


def test_ends_of_an_interval_leave_out_a_twentieth():
    some = estimates([0.5, 0.5, np.nan], [0.1, 0.1, 0.1])
    some.replicates[1, [3, 7, -4, -8]] = np.nan  # as many below as above
    assert_allclose(some.intervals[0], (0.405, 0.595))
    drawn = some.replicates[1]
    expected = np.quantile(drawn[np.isfinite(drawn)], [0.025, 0.975])
    assert_allclose(some.intervals[1], expected)
    assert np.isnan(some.intervals[2]).all()
    assert some.texts()[0] == "50.0 [40.5, 59.5]"
    assert some.exist.tolist() == [True, True, False]
    missing = Estimates(np.array([0.5]), np.full((1, 3), np.nan))
    assert np.isnan(missing.intervals).all()
    assert not missing.exist.any()


def test_intervals_are_corrected_by_twice_the_bias():
    # Replicates are too small by 0.02: so is the score, which they are drawn from.
    some = Estimates(np.array([0.5]), 0.48 + 0.1 * SPREAD[None])
    assert_allclose(some.intervals, [(0.425, 0.615)])
    # An interval contains its score, and no correlation is above 1.
    some = Estimates(np.array([0.98]), 0.9 + 0.1 * SPREAD[None])
    assert_allclose(some.intervals, [(0.965, 1.0)])
    some = Estimates(np.array([5.0]), 4 + 0.1 * SPREAD[None])
    assert_allclose(some.intervals, [(5.0, 6.095)])


def test_differences_and_averages_are_taken_resample_by_resample():
    both = estimates([0.5, 0.4, 0.4], [0.1, 0.1, -0.1])
    first, others = both[[0]], both[1:]
    # The first two move together: their difference does not move at all.
    assert_allclose((first - others).intervals[0], (0.1, 0.1))
    assert_allclose((others - first).intervals[1], (-0.29, 0.09))
    mean = both[[0, 2]].mean()
    assert_allclose(mean.values, [0.45])
    assert_allclose(mean.intervals, [(0.45, 0.45)])


RAW = "keep raw: no other is significantly better"


@pytest.mark.parametrize(
    ("values", "spreads", "expected"),
    [
        ((0.5, 0.7), (0.1, 0.1), "use b, 20.0 [20.0, 20.0] above raw"),
        ((0.5, 0.4), (0.1, 0.1), f"{RAW}; below raw: b -10.0 [-10.0, -10.0]"),
        ((0.5, 0.52), (0.1, -0.1), f"{RAW}; no significant difference: b 2.0 ["),
        (
            (0.5, 0.7, 0.7),
            (0, 0, 0),
            "use b, 20.0 [20.0, 20.0] above raw; no significant difference: c 0.0 [0.0, 0.0]; "
            "also above raw: c 20.0 [20.0, 20.0]",
        ),
        # The best score does not differ from raw, but another one is above raw.
        (
            (0.5, 0.6, 0.65),
            (0.1, 0.1, -0.2),
            "use b, 10.0 [10.0, 10.0] above raw; no significant difference: c 5.0 [-23.5, 33.5]",
        ),
    ],
)
def test_verdicts(values, spreads, expected):
    names = ["raw", "b", "c"][: len(values)]
    drawn = estimates(values, spreads)
    line = Comparison(names, drawn).verdict
    assert line.startswith(expected)
    # The first method takes the place of raw.
    others = ["first", *names[1:]]
    assert Comparison(others, drawn).verdict == line.replace("raw", "first")


@settings(max_examples=200, deadline=None)
@given(st.integers(2, 12), st.floats(0, 0.05), st.integers(0, 2**32 - 1))
def test_the_verdict_agrees_with_all_differences(count, bias, seed):
    rng = np.random.default_rng(seed)
    values = rng.uniform(0.5, 0.6, count).round(2)
    noise = rng.normal(0, rng.uniform(0, 0.05, (count, 1)), (count, 60))
    shared = rng.normal(0, 0.05, 60)
    drawn = Estimates(values, values[:, None] + shared + noise - bias * rng.random())
    names = [f"m{number}" for number in range(count)]
    raw = int(rng.integers(count))
    names[raw] = "raw"
    compared = Comparison(names, drawn)
    ends = np.array([(drawn[[row]] - drawn).intervals for row in range(count)])
    assert_allclose(compared.ends, ends, atol=1e-15)
    assert not (ends[:, compared.used, 0] > 1e-15).any()
    better = set(np.flatnonzero(ends[:, raw, 0] > 1e-15))
    assert (compared.used == raw) == (not better)
    # Others that are above raw stand behind the one to use.
    used, _, also = compared.verdict.partition("also above raw: ")
    listed = re.findall(r"m\d+", also.partition(";")[0])
    named = {names.index(name) for name in listed}
    assert named == better - {compared.used}
    assert used.startswith(f"use {names[compared.used]}, " if better else RAW)


def subset(name, count, seed):
    rng = np.random.default_rng(seed)
    words = [f"word{number}" for number in range(12)]
    texts = [
        tuple(" ".join(rng.choice(words, size=5)) for _ in range(count)) for _ in "ab"
    ]
    gold = rng.integers(0, 6, count).astype(np.float64)
    return Subset(name, texts[0], texts[1], gold)


def results_of(tasks, methods="raw,standardization"):
    corpora = {}
    for task in tasks:
        corpora[task] = [task.corpus("target")]
    cells = plan_experiments([WordSums()], parse_candidates(methods), corpora, {}, [0])
    return run_experiments(cells, EmbeddingCache(False), None, torch.device("cpu"))


def drawn_again(task, items, resamples):
    """Weighted means of the subsets' correlations on drawn pairs ``(methods, R)``."""
    rng = np.random.default_rng(123)
    replicates = np.empty((len(items), resamples))
    starts = np.cumsum([0, *task.strata])[:-1]
    for resample in range(resamples):
        drawn = [
            start + rng.integers(0, size, size)
            for start, size in zip(starts, task.strata, strict=True)
        ]
        for row, values in enumerate(items.values()):
            scores = [spearman(values[part], task.gold[part]) for part in drawn]
            replicates[row, resample] = np.average(scores, weights=task.strata)
    return replicates


def test_intervals_are_those_of_naive_resampling():
    data = STSData("tiny", {"test": [subset("a", 25, 1), subset("b", 40, 2)]})
    task = STS(data)
    results = results_of([task])
    resamples = 1500
    results.add_intervals(resamples)
    frame = results.frame.query("aggregation == 'wmean'").set_index("method")
    items = {
        name: results.items[task][cell] for name, cell in frame["experiment"].items()
    }
    naive = drawn_again(task, items, resamples)
    (line,) = results.verdicts
    cells = results.record["differences"]["tiny spearman"]["cells"]
    ends = [re.findall(r"-?\d+\.\d", cells[1][0])[1:]]
    intervals = [frame.loc[name, ["low", "high"]].to_list() for name in items]
    intervals.append([float(end) / 100 for end in ends[0]])
    # The share of replicates below a quantile has the standard deviation sqrt(p (1 - p) / R);
    # two samples are compared, at 4 of their standard deviations. Texts have one decimal.
    share = 4 * np.sqrt(2 * 0.025 * 0.975 / resamples)
    for values, (low, high) in zip(
        [*naive, naive[1] - naive[0]], intervals, strict=True
    ):
        for p, end in ((0.025, low), (0.975, high)):
            window = np.clip([p - share, p + share], 0, 1)
            lowest, highest = np.quantile(values, window)
            assert lowest - 0.0005 <= end <= highest + 0.0005
    assert line.startswith("tiny spearman: ")


def test_averages_are_over_all_tasks_of_a_split():
    data = [
        STSData(name, {"test": [subset(name, 30, seed)], "dev": [subset(name, 20, 9)]})
        for seed, name in enumerate("ab")
    ]
    tasks = [STS(each, split) for each in data for split in ("test", "dev")]
    results = results_of(tasks)
    results.add_intervals(30)
    spearman_rows = results.frame.query("metric == 'spearman'")
    keys = ["method", "split", "aggregation"]
    for values, rows in spearman_rows.groupby(keys):
        own = rows[rows["task"] != "average"]
        (mean,) = rows.query("task == 'average'").to_dict("records")
        assert mean["value"] == pytest.approx(own["value"].mean(), abs=1e-15), values
        assert mean["pairs"] == own["pairs"].sum()
        assert mean["low"] < mean["value"] < mean["high"]
    titles = [line.split(":")[0] for line in results.verdicts]
    assert titles == ["average spearman, test", "average spearman, dev"]


def test_a_method_that_fails_on_a_task_has_no_average():
    tasks = [STS(STSData(name, {"test": [subset(name, 30, 1)]})) for name in "ab"]
    results = results_of(tasks)
    broken = results.frame["method"].eq("standardization") & results.frame["task"].eq(
        "b"
    )
    keys = set(results.frame[broken]["experiment"])
    results.records = [
        replace(each, items=np.full(30, np.nan)) if each.key in keys else each
        for each in results.records
    ]
    results.frame.loc[broken, "value"] = np.nan
    results.add_intervals(20)
    means = results.frame.query("task == 'average'").set_index("method")["value"]
    assert means["standardization"].isna().all()
    assert means["raw"].notna().all()
    assert results.verdicts == []


def test_no_resamples_no_intervals():
    task = STS(STSData("tiny", {"test": [subset("a", 30, 1)]}))
    results = results_of([task])
    refused("resamples: received -1; expected 0 or more", results.add_intervals, -1)
    results.add_intervals(0)
    assert results.frame[["low", "high"]].isna().all(axis=None)
    assert results.verdicts == []
    assert results.record["bootstrap"] == {"resamples": 0, "seed": 0}


def test_intervals_depend_on_the_seed_and_on_nothing_else(pairs):
    def ends(methods, tasks, seed):
        cache = EmbeddingCache(False)
        options = {"bootstrap": 50, "bootstrap_seed": seed}
        results = compare(WordSums(), methods, tasks=tasks, cache=cache, **options)
        rows = results.frame.query("method == 'zca' and task == 'two'")
        return rows[["low", "high"]].iloc[0].to_list()

    base = ends("zca", pairs[1:], 0)
    assert ends("raw,zca", pairs, 0) == base
    assert ends("zca", pairs[1:], 1) != base


def test_verdicts_are_between_methods_and_between_encoders(pairs, monkeypatch):
    encoders = [WordSums(0), WordSums(1)]
    module = sys.modules["flowbert.experiments.compare"]
    monkeypatch.setattr(module, "open_encoders", lambda *_: encoders)
    results = compare(
        methods="raw,zca",
        corpus="target,nli",
        nli="builtin-sample",
        tasks=pairs[0],
        bootstrap=20,
        cache=EmbeddingCache(False),
    )
    assert [line.split(":")[0] for line in results.verdicts] == [
        "one spearman, word-sums-0, corpus target",
        "one spearman, word-sums-0, corpus nli",
        "one spearman, word-sums-1, corpus target",
        "one spearman, word-sums-1, corpus nli",
        "one spearman, best encoder, raw",
        "one spearman, best encoder, zca, target",
        "one spearman, best encoder, zca, nli",
    ]
    for table in results.record["differences"].values():
        assert [len(row) for row in table["cells"]] == [len(table["methods"])] * 2

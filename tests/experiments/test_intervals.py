"""Estimates, intervals, averages and verdicts."""

import re
import sys
from typing import Any

import numpy as np
import pytest
import torch

from experiments.small import WordSums
from flowbert.arrays import Floats
from flowbert.data.corpus import Corpus
from flowbert.data.sts import STSData, Subset
from flowbert.experiments import Results, compare
from flowbert.experiments.candidates import parse_candidates
from flowbert.experiments.estimates import Estimate, average, verdict
from flowbert.experiments.intervals import add_intervals
from flowbert.experiments.plan import plan_experiments
from flowbert.experiments.run import run_experiments
from flowbert.tasks import STS, Task, spearman
from flowbert.vectors import EmbeddingCache

SPREAD = np.linspace(-1, 1, 201)


def estimate(value: float, spread: float = 0.0, shape: Floats = SPREAD) -> Estimate:
    return Estimate(value, value + spread * shape)


def test_ends_of_an_interval_leave_out_a_twentieth() -> None:
    low, high = estimate(0.5, 0.1).interval
    assert (low, high) == pytest.approx((0.405, 0.595))
    with_gaps = Estimate(0.5, np.append(0.5 + 0.1 * SPREAD, [np.nan, np.nan]))
    assert with_gaps.interval == (low, high)
    assert with_gaps.exists
    assert estimate(0.5, 0.1).text() == "50.0 [40.5, 59.5]"
    missing = Estimate(0.5, np.full(3, np.nan))
    assert np.isnan(missing.interval).all()
    assert not missing.exists
    assert not Estimate(np.nan, SPREAD).exists


def test_differences_and_averages_are_taken_resample_by_resample() -> None:
    first, second = estimate(0.5, 0.1), estimate(0.4, 0.1)
    # Both move together: the difference does not move at all.
    assert (first - second).interval == pytest.approx((0.1, 0.1))
    assert (first - second).excludes_zero
    opposite = estimate(0.4, 0.1, -SPREAD)
    assert not (first - opposite).excludes_zero
    assert (opposite - first).interval == pytest.approx((-0.29, 0.09))
    mean = average([first, opposite])
    assert mean.value == pytest.approx(0.45)
    assert mean.interval == pytest.approx((0.45, 0.45))


@pytest.mark.parametrize(
    ("values", "spreads", "expected"),
    [
        ((0.5, 0.7), (0.1, 0.1), "b is better than raw by 20.0 [20.0, 20.0]. Use: b"),
        ((0.5, 0.4), (0.1, 0.1), "nothing is better than raw; b is worse than raw by"),
        ((0.5, 0.52), (0.1, -0.1), "nothing is better than raw: the lead of b is noise"),
        ((0.5, 0.48), (0.1, -0.1), "nothing is better than raw; raw and b do not differ"),
        ((0.5, 0.7, 0.7), (0, 0, 0), "b is better than raw by 20.0 [20.0, 20.0]; b and c"),
        ((0.5, 0.6, 0.7), (0, 0, 0), "c is better than raw by 20.0 [20.0, 20.0]. Use: c"),
    ],
)  # fmt: skip
def test_verdicts(
    values: tuple[float, ...], spreads: tuple[float, ...], expected: str
) -> None:
    names = ("raw", "b", "c")[: len(values)]
    estimates = dict(zip(names, map(estimate, values, spreads), strict=True))
    line = verdict(estimates)
    assert line.startswith(expected)
    # The first method takes the place of raw.
    others = {name.replace("raw", "first"): each for name, each in estimates.items()}
    assert verdict(others) == line.replace("raw", "first")
    # The first of those that are the best within noise.
    best = estimates[max(estimates, key=lambda name: estimates[name].value)]
    close = [name for name in names if not (best - estimates[name]).excludes_zero]
    assert line.endswith(f". Use: {close[0]}")


def subset(name: str, count: int, seed: int) -> Subset:
    rng = np.random.default_rng(seed)
    words = [f"word{number}" for number in range(12)]
    texts = [
        tuple(" ".join(rng.choice(words, size=5)) for _ in range(count)) for _ in "ab"
    ]
    gold = rng.integers(0, 6, count).astype(np.float64)
    return Subset(name, texts[0], texts[1], gold)


def results_of(tasks: list[STS], methods: str = "raw,standardization") -> Results:
    corpora: dict[Task, list[Corpus]] = {}
    for task in tasks:
        corpora[task] = [task.corpus("target")]
    cells = plan_experiments([WordSums()], parse_candidates(methods), corpora, {}, [0])
    return run_experiments(cells, EmbeddingCache(False), None, torch.device("cpu"))


def drawn_again(task: STS, items: dict[str, Floats], resamples: int) -> Floats:
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
            figures = [spearman(values[part], task.gold[part]) for part in drawn]
            replicates[row, resample] = np.average(figures, weights=task.strata)
    return replicates


def test_intervals_are_those_of_naive_resampling() -> None:
    data = STSData("tiny", {"test": [subset("a", 25, 1), subset("b", 40, 2)]})
    task = STS(data)
    results = results_of([task])
    resamples = 1500
    add_intervals(results, resamples)
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


def test_averages_are_over_all_tasks_of_a_split() -> None:
    data = [
        STSData(name, {"test": [subset(name, 30, seed)], "dev": [subset(name, 20, 9)]})
        for seed, name in enumerate("ab")
    ]
    tasks = [STS(each, split) for each in data for split in ("test", "dev")]
    results = results_of(tasks)
    add_intervals(results, 30)
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


def test_a_method_that_fails_on_a_task_has_no_average() -> None:
    tasks = [STS(STSData(name, {"test": [subset(name, 30, 1)]})) for name in "ab"]
    results = results_of(tasks)
    broken = results.frame["method"].eq("standardization") & results.frame["task"].eq(
        "b"
    )
    for cell in results.frame[broken]["experiment"].unique():
        results.items[tasks[1]][cell] = np.full(30, np.nan)
    results.frame.loc[broken, "value"] = np.nan
    add_intervals(results, 20)
    means = results.frame.query("task == 'average'").set_index("method")["value"]
    assert means["standardization"].isna().all()
    assert means["raw"].notna().all()
    assert results.verdicts == []


def test_no_resamples_no_intervals() -> None:
    task = STS(STSData("tiny", {"test": [subset("a", 30, 1)]}))
    results = results_of([task])
    add_intervals(results, 0)
    assert results.frame[["low", "high"]].isna().all(axis=None)
    assert results.verdicts == []
    assert results.record["bootstrap"] == {"resamples": 0, "seed": 0}


def test_intervals_depend_on_the_seed_and_on_nothing_else(pairs: list[str]) -> None:
    def ends(methods: str, tasks: list[str], seed: int) -> Any:
        cache = EmbeddingCache(False)
        options: dict[str, Any] = {"bootstrap": 50, "bootstrap_seed": seed}
        results = compare(WordSums(), methods, tasks=tasks, cache=cache, **options)
        rows = results.frame.query("method == 'zca' and task == 'two'")
        return rows[["low", "high"]].iloc[0].to_list()

    base = ends("zca", pairs[1:], 0)
    assert ends("raw,zca", pairs, 0) == base
    assert ends("zca", pairs[1:], 1) != base


def test_verdicts_are_between_methods_and_between_encoders(
    pairs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
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
        "one spearman, between encoders, raw, none",
        "one spearman, between encoders, zca, target",
        "one spearman, between encoders, zca, nli",
    ]
    for table in results.record["differences"].values():
        assert [len(row) for row in table["cells"]] == [len(table["methods"])] * 2

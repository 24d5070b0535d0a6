"""Draws, intervals, averages and verdicts."""

import itertools
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from experiments.small import WordSums, compare_small, write_pairs
from flowbert.data.sample import sample_pairs
from flowbert.data.scored_pairs import STSData, Subset
from flowbert.encoders import EncoderOptions
from flowbert.experiments import compare
from flowbert.experiments.intervals import average_seeds, find_intervals, has_interval
from flowbert.experiments.verdict import Verdict
from flowbert.tasks import STS, PairTask

run = partial(compare_small, WordSums())
SPREAD = np.linspace(-1, 1, 201)


def draws(values, spreads):
    drawn = [
        [value, *(value + spread * SPREAD)]
        for value, spread in zip(values, spreads, strict=True)
    ]
    return np.array(drawn)


def test_ends_of_an_interval_leave_out_a_twentieth():
    some = draws([0.5, 0.5, np.nan], [0.1, 0.1, 0.1])
    some[1, [4, 8, -4, -8]] = np.nan  # as many below as above
    some[2, 1:] = 0.5  # without a score
    ends = find_intervals(some)
    assert_allclose(ends[0], (0.405, 0.595))
    drawn = some[1, 1:]
    expected = np.quantile(drawn[np.isfinite(drawn)], [0.025, 0.975])
    assert_allclose(ends[1], expected)
    assert np.isnan(ends[2]).all()
    assert has_interval(some).tolist() == [True, True, False]
    missing = np.array([[0.5, np.nan, np.nan]])
    assert np.isnan(find_intervals(missing)).all()
    assert not has_interval(missing).any()


def test_intervals_are_corrected_by_twice_the_bias():
    # Replicates are too small by 0.02: so is the score, which they are drawn from.
    def interval(value, center, spread):
        return find_intervals(np.array([[value, *(center + spread * SPREAD)]]))

    assert_allclose(interval(0.5, 0.48, 0.1), [(0.425, 0.615)])
    # An interval contains its score, and no correlation is above 1.
    assert_allclose(interval(0.98, 0.9, 0.1), [(0.965, 1.0)])
    assert_allclose(interval(5.0, 4.0, 0.1), [(5.0, 6.095)])


TWO = "; 2 methods compared"


@pytest.mark.parametrize(
    ("values", "spreads", "expected"),
    [
        ((0.5, 0.4, 0.4), (0.1, 0.1, 0.1), f"keep it as it comes: raw, 50.0{TWO}"),
        (
            (0.5, 0.52, 0.4),
            (0.1, -0.1, 0.1),
            f"keep it as it comes: raw, 50.0{TWO}; b, +2.0 [-17.0, 21.0], is not "
            "significantly better",
        ),
        # The highest score does not differ from raw, but another one is above raw.
        (
            (0.5, 0.6, 0.65),
            (0.1, 0.1, -0.2),
            f"use b, 60.0, +10.0 [10.0, 10.0] over raw{TWO}",
        ),
        # The higher one of two, in whatever order they come.
        (
            (0.5, 0.6, 0.61),
            (0.1, 0.1, 0.06),
            f"use c, 61.0, +11.0 [7.2, 14.8] over raw{TWO}; tied: b",
        ),
        (
            (0.5, 0.6, 0.7),
            (0.1, 0.1, 0.1),
            f"use c, 70.0, +20.0 [20.0, 20.0] over raw{TWO}",
        ),
    ],
)
def test_verdicts(values, spreads, expected):
    assert Verdict(["raw", "b", "c"], draws(values, spreads)).text == expected


def test_what_nobody_asked_for_is_never_used():
    """Such as the reading of a map without the map."""
    names, asked = ["raw", "layers 1", "zca"], np.array([True, False, True])
    drawn = draws((0.5, 0.61, 0.6), (0.1, 0.06, 0.1))
    verdict = Verdict(names, drawn, is_asked=asked)
    assert verdict.text.endswith(
        "over raw; tied: layers 1; this adds nothing significant to layers 1"
    )
    assert verdict.gains["choice"].tolist() == ["", "tied", "use"]
    better = draws((0.5, 0.7, 0.6), (0.1, 0.1, 0.1))
    verdict = Verdict(names, better, is_asked=asked)
    expected = (
        "keep it as it comes: raw, 50.0; significantly better, without a map: layers 1"
    )
    assert verdict.text == expected
    assert verdict.gains["choice"].tolist() == ["use", "tied", ""]


@settings(max_examples=100, deadline=None)
@given(st.integers(2, 9), st.floats(0, 0.05), st.integers(0, 2**32 - 1))
def test_the_verdict_agrees_with_all_differences(count, bias, seed):
    rng = np.random.default_rng(seed)
    values = rng.uniform(0.5, 0.6, count).round(2)
    noise = rng.normal(0, rng.uniform(0, 0.05, (count, 1)), (count, 60))
    shared = rng.normal(0, 0.05, 60)
    resampled = values[:, None] + shared + noise - bias * rng.random()
    drawn = np.column_stack([values, resampled])
    names = [f"m{number}" for number in range(count)]
    base = int(rng.integers(count))
    asked = rng.random(count) < 0.7
    asked[base] = True
    verdict = Verdict(names, drawn, base, asked)
    ends = np.array([find_intervals(drawn[row] - drawn) for row in range(count)])
    assert_allclose(verdict.ends, ends, atol=1e-15)
    is_better = ends[..., 0] > 1e-15
    best = {row for row in range(count) if is_better[row, base]}
    best = {row for row in best if not is_better[:, row].any()}
    candidates = [row for row in best if asked[row]]
    used = max(candidates, key=lambda row: values[row], default=base)
    assert verdict.values[verdict.used] == values[used]
    assert set(verdict.tied) == best - {verdict.used}
    assert verdict.text.startswith("keep" if not candidates else "use")


def test_seeds_are_resampled_with_the_pairs():
    rng = np.random.default_rng(0)
    resamples, seeds = 4000, rng.normal(0.5, 0.05, 5)
    pairs = rng.normal(0, 0.02, resamples)
    drawn = np.column_stack([seeds, seeds[:, None] + pairs])
    mean = average_seeds(drawn, 0)
    assert mean[0] == pytest.approx(seeds.mean())
    # Variances of independent parts add up; the relative error of a variance of 4000 draws is
    # sqrt(2 / 4000), 2%; five of them are 11%.
    expected = pairs.var() + seeds.var(ddof=1) / len(seeds)
    assert mean[1:].var() == pytest.approx(expected, rel=0.11)
    # The draws are the same for all: a difference of equal deviations has none.
    other = average_seeds(drawn - 0.1, 0)
    assert_allclose(mean - other, 0.1)


def subset(name, count, part):
    """Pairs of one part of the sample."""
    first, second, gold = zip(*sample_pairs("test")[100 * part :][:count], strict=True)
    return Subset(name, first, second, np.array(gold))


def test_intervals_are_those_of_the_tasks_resamples():
    """Which tests/tasks/test_bootstrap.py compares with drawn pairs."""
    data = STSData("tiny", {"test": [subset("a", 25, 1), subset("b", 40, 2)]})
    task = STS(data)
    results = run("raw,standardization", tasks=[task])
    results.add_intervals(50, seed=3)
    frame = results.frame.query("aggregation == 'wmean'").set_index("experiment")
    items = {key: results.items[task][key] for key in frame.index}
    drawn = task.resample(items, 50, seed=3)["spearman", "wmean"]
    expected = np.column_stack([frame["value"], drawn])
    assert_allclose(frame[["low", "high"]], find_intervals(expected))
    cells = results.differences["tiny spearman, test"]["cells"]
    low, high = 100 * find_intervals(expected[[1]] - expected[[0]])[0]
    assert cells[1][0].endswith(f" [{low:.1f}, {high:.1f}]")


def test_averages_are_over_all_tasks_of_a_split():
    data = [
        STSData(name, {"test": [subset(name, 30, seed)], "dev": [subset(name, 20, 9)]})
        for seed, name in enumerate("ab")
    ]
    tasks = [STS(each, split) for each in data for split in ("test", "dev")]
    results = run("raw,standardization", tasks=tasks)
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
    splits = ("test", "dev")
    assert titles == [f"word-sums-0 on average spearman, {split}" for split in splits]


def test_intervals_depend_on_the_seed_and_on_nothing_else(pairs):
    def ends(methods, tasks, seed):
        results = run(methods, tasks=tasks, bootstrap=50, bootstrap_seed=seed)
        rows = results.frame.query("method == 'zca' and task == 'two'")
        return rows[["low", "high"]].iloc[0].to_list()

    base = ends("zca", pairs[1:], 0)
    assert ends("raw,zca", pairs, 0) == base
    assert ends("zca", pairs[1:], 1) != base


def test_one_verdict_is_over_all_that_differs(pairs):
    encoders = [WordSums(0), WordSums(1)]
    corpora = {"corpus": "target,nli", "nli": "builtin-sample"}
    results = compare_small(
        encoders, "raw,zca", tasks=pairs[0], bootstrap=20, **corpora
    )
    titles = [line.split(":")[0] for line in results.verdicts]
    assert titles == ["all encoders", "word-sums-0", "word-sums-1"]
    ((title, table),) = results.differences.items()
    assert title == "one spearman, test"
    rows = ["raw ({})", "zca ({}, target)", "zca ({}, nli)"]
    names = [encoder.columns()["encoder"] for encoder in encoders]
    assert table["methods"] == [row.format(name) for name in names for row in rows]
    assert [len(row) for row in table["cells"]] == [6] * 6


SPLITS = {"dev": [subset("a", 40, 3)], "test": [subset("a", 40, 4)]}


def test_raw_is_the_encoder_as_it_comes(tmp_path):
    options = EncoderOptions(layers="first_last", template="this says: {}")
    task = write_pairs(tmp_path / "pairs.tsv")
    results = compare(options, "raw,zca:shrinkage=0.5", tasks=task, bootstrap=20)
    frame = results.frame.query("aggregation == 'wmean'").set_index(["method", "role"])
    assert frame["layers"].to_dict() == {
        ("raw", "reference"): "last",
        ("raw", "reading"): "first_last",
        ("zca:shrinkage=0.5", "method"): "first_last",
    }
    plain = compare(methods="raw", tasks=task, bootstrap=0)
    as_it_comes = results.score("raw", "pairs", role="reference")
    assert as_it_comes == plain.score("raw", "pairs")
    (names,) = (table["methods"] for table in results.differences.values())
    template = "'this says: {}'"
    assert names == [
        "raw",
        f"template {template}, layers first_last",
        "zca:shrinkage=0.5",
    ]


class Level(PairTask):
    metrics = (("level", "all"), ("none", "all"))
    headline = "level"
    averaged = True

    def score(self, items):
        return dict(zip(self.metrics, (float(items.mean()), np.nan), strict=True))


def test_a_split_without_an_average_has_the_verdict_of_its_task():
    tasks = [STS(STSData("a", SPLITS), split) for split in SPLITS]
    tasks.append(STS(STSData("b", SPLITS), "test"))
    own = Level("own", *tasks[0].pairs())
    results = run("raw,zca", tasks=[own, *tasks], bootstrap=20)
    titles = ["average spearman, test", "a spearman, dev", "own level, test"]
    assert list(results.differences) == titles
    assert "nan: zca on own: none of these 40 items is NaN" in repr(results)


def test_of_a_sweep_ten_rows_are_chosen_on_the_development_split():
    sizes = itertools.product((2, 3, 4), (0.1, 0.2, 0.3, 0.4))
    methods = [f"truncation-{size}+zca:shrinkage={part}" for size, part in sizes]
    methods = ["raw", *methods]
    data = STSData("tiny", SPLITS)
    results = run(methods, tasks=[STS(data, split) for split in SPLITS])
    results.add_intervals(20)
    assert results.verdicts[1] == "Of 13 rows the best 10 on dev were compared"
    ((title, table),) = results.differences.items()
    assert title == "tiny spearman, test"
    scores = {name: results.score(name, "tiny", split="dev") for name in methods}
    best = sorted(methods, key=lambda name: -scores[name])[:10]
    assert set(table["methods"]) == {"raw", *best}
    assert results.summary.print() == len(table["methods"])
    # Without that split each has its own ten.
    data = STSData("tiny", {"train": SPLITS["dev"], "test": SPLITS["test"]})
    results = run(methods, tasks=[STS(data, split) for split in data.splits])
    results.add_intervals(20)
    assert len(results.differences) == 2

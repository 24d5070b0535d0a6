"""Intervals and verdicts of a comparison, from the similarities kept beside the results."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from flowbert.calibration import Standardization
from flowbert.data.corpus import Corpus
from flowbert.data.sts import STSTask, Subset
from flowbert.evaluation.grid import Cell, Request, Source, reference_rows
from flowbert.evaluation.intervals import Intervals
from flowbert.evaluation.results import rows_of
from flowbert.evaluation.scores import ScoreFolder
from flowbert.methods import Chain, Method
from flowbert.tasks import STS, Lexical, Retrieval

PAIRS = 300
GOLD = np.random.default_rng(0).uniform(0, 5, PAIRS)
NOISE = np.random.default_rng(1).normal(size=PAIRS)


def cells(tasks: Sequence[str] = ("A",), seeds: Sequence[int] = (0,), subsets: int = 1) -> list[Cell]:
    texts = tuple(f"sentence {number}" for number in range(PAIRS))

    def build(_: int) -> Chain:
        return Chain([Standardization()])

    size = PAIRS // subsets
    parts = [slice(start, start + size) for start in range(0, PAIRS, size)]
    tasks_ = [
        STS(STSTask(name, {"test": [Subset(f"{name}{p.start}", texts[p], texts[p], GOLD[p]) for p in parts]}))
        for name in tasks
    ]
    source = Source(
        {"encoder": "e", "layers": "last", "pooling": "mean"}, {}, 1, lambda _: np.zeros((1, 1)), lambda _: None
    )
    corpus = Corpus.of("target", texts)
    methods = [Method("raw"), Method("good", build=build), Method("twin", build=build, seeded=True)]
    request = Request([source], tasks_, methods, ["target"], lambda *_: corpus, lambda _: (), seeds)
    return request.cells()


def filled(folder: Path, mine: Sequence[Cell]) -> ScoreFolder:
    """Raw is noisy, the two others are nearer to the gold score, and equal but for seeds above 0."""
    scores = ScoreFolder(folder)
    for number, cell in enumerate(mine):
        jitter = 0.1 * (cell.seed or 0) * np.random.default_rng(number).normal(size=PAIRS)
        scores.add(cell, filled_values(cell) + jitter)
    return scores


def filled_values(cell: Cell) -> NDArray[np.float64]:
    return GOLD + (4 if cell.method.name == "raw" else 0.5) * NOISE


def test_verdict_of_one_task(tmp_path: Path) -> None:
    mine = cells()
    intervals = Intervals.of(mine, filled(tmp_path, mine), resamples=200, seed=0)
    (line,) = intervals.verdicts("wmean")
    assert line.startswith("corpus target, A: ")
    assert "is better than raw by" in line
    assert line.endswith("Use: good")


def test_several_tasks_are_averaged_and_seeds_pooled(tmp_path: Path) -> None:
    mine = cells(["A", "B"], seeds=[0, 1, 2])
    intervals = Intervals.of(mine, filled(tmp_path, mine), resamples=50, seed=0)
    (found,) = intervals.comparisons()
    group, replicates = found.shared, found.replicates
    assert replicates is not None
    assert found.kind == "average"
    assert group == ("e", "last", "mean", "test", "target")
    assert replicates.methods == ("raw", "good", "twin")
    assert replicates.name == "average of 2 tasks"
    by_seed = []
    for cell in mine:
        of_task = intervals.of_task(cell.task, "wmean")
        assert of_task is not None
        if cell.seed is not None:
            by_seed.append(of_task.interval(cell.setting).value)
    assert replicates.interval("twin").value == pytest.approx(np.mean(by_seed), abs=1e-12)
    assert intervals.averages("all")[(*group, "raw")].low < intervals.averages("all")[(*group, "good")].low


def test_differences_are_antisymmetric(tmp_path: Path) -> None:
    mine = cells()
    intervals = Intervals.of(mine, filled(tmp_path, mine), resamples=100, seed=0)
    ((title, (names, table)),) = intervals.differences("wmean").items()
    assert title == "wmean, A: e, last, mean, test, target"
    assert names == ("raw", "good", "twin")
    for i, row in enumerate(table):
        for j, found in enumerate(row):
            back = table[j][i]
            if i == j:
                assert found is None
            else:
                assert found is not None
                assert back is not None
                assert (found.value, found.low) == pytest.approx((-back.value, -back.high))


def test_encoders_are_compared_on_the_same_pairs(tmp_path: Path) -> None:
    mine = [
        replace(cell, source=replace(cell.source, columns={**cell.source.columns, "encoder": name}, key={"e": name}))
        for name in ("small", "large")
        for cell in cells(["A", "B"])
    ]
    tasks = {cell.task.name: cell.task for cell in mine}
    mine = [replace(cell, task=tasks[cell.task.name]) for cell in mine]
    scores = ScoreFolder(tmp_path)
    for cell in mine:
        scores.add(cell, GOLD + (4 if cell.source.key["e"] == "small" else 1) * NOISE)
    intervals = Intervals.of(mine, scores, resamples=100, seed=0)
    found = {each.shared[0]: each.replicates for each in intervals.comparisons() if each.kind == "encoders"}
    assert list(found) == [
        f"{name}, layers last, pooling mean, split test, corpus {corpus}"
        for name, corpus in (("raw", "none"), ("good", "target"), ("twin", "target"))
    ]
    for title, replicates in found.items():
        assert replicates is not None
        assert replicates.methods == ("small", "large")
        assert replicates.difference("large", "small").low > 0
        line = next(line for line in intervals.verdicts("wmean") if title in line)
        assert line.startswith("between encoders, ")
        assert "large is better than small by" in line
        assert line.endswith("Use: large")
    assert sum("between encoders" in title for title in intervals.differences("wmean")) == 3


def test_edit_distances_are_resampled_with_the_gold_score_beside(tmp_path: Path) -> None:
    words = [" x" * count for count in np.random.default_rng(5).integers(0, 9, PAIRS)]
    first = tuple(f"sentence {number}" for number in range(PAIRS))
    second = tuple(text + more for text, more in zip(first, words, strict=True))
    halves = (slice(0, PAIRS // 2), slice(PAIRS // 2, PAIRS))
    task = Lexical(STSTask("A", {"test": [Subset(f"{h}", first[h], second[h], GOLD[h]) for h in halves]}))
    base = cells()
    mine = [*base, *(replace(cell, task=task) for cell in base)]
    intervals = Intervals.of(mine, filled(tmp_path, mine), resamples=100, seed=0)
    replicates = intervals.replicates[task]["edit_distance_words", "all"]
    assert replicates.methods == ("gold", *(cell.setting for cell in mine[3:]))
    assert intervals.of_task(task, "wmean") is None
    rows = [rows_of(task.measure_items(filled_values(cell)), **cell.columns)[0] for cell in mine[3:]]
    rows = intervals.rows([*reference_rows([task]), *rows])
    for row, name in zip(rows, replicates.methods, strict=True):
        interval = replicates.interval(name)
        assert (row.value, row.low, row.high) == (interval.value, interval.low, interval.high)
        assert row.low < row.value < row.high
    names, table = intervals.differences("wmean")["A edit_distance_words: e, last, mean, test, target"]
    assert names == ("raw", "good", "twin", "gold")
    value = {row.method: row.value for row in rows}
    for method, line in zip(names, table, strict=True):
        for other, found in zip(names, line, strict=True):
            assert (found is None) == (method == other)
            if found is not None:
                assert found.value == pytest.approx(value[method] - value[other], abs=1e-12)
                assert found.low <= found.value <= found.high
    assert len(intervals.verdicts("wmean")) == 1  # none says which of them to use by it


def test_queries_are_resampled_for_every_metric_and_mrr_decides(tmp_path: Path) -> None:
    base = cells()
    first, second = (tuple(f"{side} {number}" for number in range(60)) for side in "ab")
    task = Retrieval(STSTask("A", {"test": [Subset("A", first, second, np.full(60, 5.0))]}))
    mine = [replace(cell, task=task) for cell in base]
    names = [metric for metric, _ in task.measures]
    scores = ScoreFolder(tmp_path)
    for cell in mine:
        level = 0.2 if cell.method.name == "raw" else 0.8
        scores.add(cell, np.random.default_rng(7).uniform(size=(4, 60)) * level)
    intervals = Intervals.of(mine, scores, resamples=100, seed=0)
    (line,) = intervals.verdicts("wmean")
    assert line.startswith("corpus target, A mrr@10: good is better than raw by")
    found = intervals.differences("wmean")
    assert list(found) == [f"A {name}: e, last, mean, test, target" for name in names]
    for methods, table in found.values():
        assert methods == ("raw", "good", "twin")
        difference, none = table[1][0], table[1][2]
        assert difference is not None
        assert difference.low > 0
        assert none is not None
        assert (none.value, none.low, none.high) == (0, 0, 0)


def test_rows_get_their_interval(tmp_path: Path) -> None:
    mine = cells()
    intervals = Intervals.of(mine, filled(tmp_path, mine), resamples=100, seed=0)
    cell = mine[0]
    for row in intervals.rows(rows_of(cell.task.measure_items(filled_values(cell)), **cell.columns)):
        replicates = intervals.of_task(cell.task, row.aggregation)
        assert replicates is not None
        interval = replicates.interval(cell.setting)
        assert row.value == interval.value
        assert (row.low, row.high) == (interval.low, interval.high)
        assert row.low < row.high

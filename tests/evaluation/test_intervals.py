"""Intervals and verdicts of a comparison, from the similarities kept beside the results."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from flowbert.calibration import Standardization
from flowbert.data.corpus import Corpus
from flowbert.data.sts import STSTask, Subset
from flowbert.errors import UserError
from flowbert.evaluation import Cell, Method, Request, RetrievalJob, Source, STSJob
from flowbert.evaluation.intervals import Certainty, EditDistances
from flowbert.evaluation.results import rows_of
from flowbert.evaluation.scores import ScoreFolder
from flowbert.methods import Chain
from flowbert.tasks.base import lexical_rows
from flowbert.tasks.protocol import TaskFigures

PAIRS = 300
GOLD = np.random.default_rng(0).uniform(0, 5, PAIRS)
NOISE = np.random.default_rng(1).normal(size=PAIRS)


def cells(tasks: Sequence[str] = ("A",), seeds: Sequence[int] = (0,), subsets: int = 1) -> list[Cell]:
    texts = tuple(f"sentence {number}" for number in range(PAIRS))

    def build(_: int) -> Chain:
        return Chain([Standardization()])

    size = PAIRS // subsets
    parts = [slice(start, start + size) for start in range(0, PAIRS, size)]
    jobs = [
        STSJob(STSTask(name, {"test": [Subset(f"{name}{p.start}", texts[p], texts[p], GOLD[p]) for p in parts]}))
        for name in tasks
    ]
    source = Source(
        {"encoder": "e", "layers": "last", "pooling": "mean"}, {}, 1, lambda _: np.zeros((1, 1)), lambda _: None
    )
    corpus = Corpus.of("target", texts)
    methods = [Method("raw"), Method("good", build=build), Method("twin", build=build, seeded=True)]
    request = Request([source], jobs, methods, ["target"], lambda *_: corpus, lambda _: (), seeds)
    return request.cells()


def filled(folder: Path, mine: Sequence[Cell]) -> ScoreFolder:
    """Raw is noisy, the two others are nearer to the gold score, and equal but for seeds above 0."""
    scores = ScoreFolder(folder)
    for number, cell in enumerate(mine):
        jitter = 0.1 * (cell.seed or 0) * np.random.default_rng(number).normal(size=PAIRS)
        values = GOLD + (4 * NOISE if cell.method.name == "raw" else 0.5 * NOISE + jitter)
        scores.add(cell, tuple(np.split(values, len(cell.job.scored()[0]))))
    return scores


def test_verdict_of_one_task(tmp_path: Path) -> None:
    mine = cells()
    certainty = Certainty.of(mine, filled(tmp_path, mine), resamples=200, seed=0)
    (line,) = certainty.verdicts("wmean")
    assert line.startswith("corpus target, A: ")
    assert "is better than raw by" in line
    assert line.endswith("Use: good")


def test_several_tasks_are_averaged_and_seeds_pooled(tmp_path: Path) -> None:
    mine = cells(["A", "B"], seeds=[0, 1, 2])
    certainty = Certainty.of(mine, filled(tmp_path, mine), resamples=50, seed=0)
    ((group, replicates),) = certainty.groups().items()
    assert group == ("e", "last", "mean", "test", "target")
    assert replicates.methods == ("raw", "good", "twin")
    assert replicates.task == "average of 2 tasks"
    by_seed = [certainty.by_job[cell.job].interval(cell.setting).value for cell in mine if cell.seed is not None]
    assert replicates.interval("twin").value == pytest.approx(np.mean(by_seed), abs=1e-12)
    assert certainty.averages("all")[(*group, "raw")].low < certainty.averages("all")[(*group, "good")].low


def test_differences_are_antisymmetric(tmp_path: Path) -> None:
    mine = cells()
    certainty = Certainty.of(mine, filled(tmp_path, mine), resamples=100, seed=0)
    ((title, (names, table)),) = certainty.differences("wmean").items()
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
    jobs = {cell.job.name: cell.job for cell in mine}
    mine = [replace(cell, job=jobs[cell.job.name]) for cell in mine]
    scores = ScoreFolder(tmp_path)
    for cell in mine:
        scores.add(cell, (GOLD + (4 if cell.source.key["e"] == "small" else 1) * NOISE,))
    certainty = Certainty.of(mine, scores, resamples=100, seed=0)
    found = certainty.between_encoders()
    assert list(found) == [
        f"{name}, layers last, pooling mean, split test, corpus {corpus}"
        for name, corpus in (("raw", "none"), ("good", "target"), ("twin", "target"))
    ]
    for title, replicates in found.items():
        assert replicates.methods == ("small", "large")
        assert replicates.difference("large", "small").low > 0
        line = next(line for line in certainty.verdicts("wmean") if title in line)
        assert line.startswith("between encoders, ")
        assert "large is better than small by" in line
        assert line.endswith("Use: large")
    assert sum("between encoders" in title for title in certainty.differences("wmean")) == 3


def test_edit_distances_are_resampled_with_the_gold_score_beside(tmp_path: Path) -> None:
    mine = cells(subsets=2)
    job = mine[0].job
    # Longer sentences in the second subset: over all pairs the figure is another one than within the subsets.
    edits = np.random.default_rng(5).integers(0, 9, PAIRS) + np.repeat([0.0, 20.0], PAIRS // 2)
    distances = EditDistances("words", {job: edits})
    scores = filled(tmp_path, mine)
    certainty = Certainty.of(mine, scores, resamples=100, seed=0, distances=distances)
    replicates = certainty.others[job]["edit_distance_words"]
    assert replicates.methods == ("gold", *(cell.setting for cell in mine))
    pairs = scores.pairs(mine)
    assert pairs is not None
    rows = certainty.rows(lexical_rows(pairs, distances.by_job[job], "words", {c.setting: c.columns for c in mine}))
    for row, name in zip(rows, replicates.methods, strict=True):
        interval = replicates.interval(name, "all")
        assert (row.value, row.low, row.high) == (interval.value, interval.low, interval.high)
        assert row.low < row.value < row.high
    names, table = certainty.differences("wmean")["A edit_distance_words: e, last, mean, test, target"]
    assert names == ("raw", "good", "twin", "gold")
    value = {row.method: row.value for row in rows}
    for method, line in zip(names, table, strict=True):
        for other, found in zip(names, line, strict=True):
            assert (found is None) == (method == other)
            if found is not None:
                assert found.value == pytest.approx(value[method] - value[other], abs=1e-12)
                assert found.low <= found.value <= found.high
    assert len(certainty.verdicts("wmean")) == 1  # none says which of them to use by it


def test_queries_are_resampled_for_every_metric_and_mrr_decides(tmp_path: Path) -> None:
    base = cells()
    first, second = (tuple(f"{side} {number}" for number in range(60)) for side in "ab")
    job = RetrievalJob(STSTask("A", {"test": [Subset("A", first, second, np.full(60, 5.0))]}))
    mine = [replace(cell, job=job) for cell in base]
    names, _ = job.scored()
    scores = ScoreFolder(tmp_path)
    for cell in mine:
        level = 0.2 if cell.method.name == "raw" else 0.8
        scores.add(cell, tuple(np.random.default_rng(7).uniform(size=60) * level for _ in names))
    certainty = Certainty.of(mine, scores, resamples=100, seed=0)
    (line,) = certainty.verdicts("wmean")
    assert line.startswith("corpus target, A mrr@10: good is better than raw by")
    found = certainty.differences("wmean")
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
    certainty = Certainty.of(mine, filled(tmp_path, mine), resamples=100, seed=0)
    figures = TaskFigures("A", "test", 0.5, 0.5, 0.5, PAIRS, (), 0.1, 1, -1.0, 0.1, 2, 2)
    for row in certainty.rows(rows_of(figures, **mine[0].columns)):
        interval = certainty.by_job[mine[0].job].interval(mine[0].setting, row.aggregation)
        assert (row.low, row.high) == (interval.low, interval.high)
        assert row.low < row.high


def test_scores_are_read_back_and_refused_for_other_pairs(tmp_path: Path) -> None:
    mine = cells()
    first = filled(tmp_path, mine)
    again = ScoreFolder(tmp_path)
    assert all(again.has(cell) for cell in mine)
    kept, loaded = first.pairs(mine), again.pairs(mine)
    assert kept is not None
    assert loaded is not None
    for cell in mine:
        np.testing.assert_array_equal(kept.concatenated(cell.setting), loaded.concatenated(cell.setting))
    other = cells(["B"])
    assert not any(again.has(cell) for cell in other)
    with pytest.raises(UserError, match="needed"):
        again.add(mine[0], (GOLD[:5],))

"""Intervals and verdicts of a comparison, from the similarities kept beside the results."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from flowbert.calibration import Chain, Standardization
from flowbert.data.corpus import Corpus
from flowbert.data.sts import STSTask, Subset
from flowbert.errors import UserError
from flowbert.evaluation import Cell, Method, Request, Source, STSJob
from flowbert.evaluation.certainty import Certainty
from flowbert.evaluation.protocol import TaskFigures
from flowbert.evaluation.results import rows_of
from flowbert.evaluation.scores import ScoreFolder

PAIRS = 300
GOLD = np.random.default_rng(0).uniform(0, 5, PAIRS)
NOISE = np.random.default_rng(1).normal(size=PAIRS)


def cells(tasks: Sequence[str] = ("A",), seeds: Sequence[int] = (0,)) -> list[Cell]:
    texts = tuple(f"sentence {number}" for number in range(PAIRS))

    def build(_: int) -> Chain:
        return Chain([Standardization()])

    jobs = [STSJob(STSTask(name, {"test": [Subset(name, texts, texts, GOLD)]})) for name in tasks]
    source = Source(
        {"encoder": "e", "layers": "last", "pooling": "mean"}, {}, lambda _: np.zeros((1, 1)), lambda _: None
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
        scores.add(cell, (GOLD + (4 * NOISE if cell.method.name == "raw" else 0.5 * NOISE + jitter),))
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
    ((_, table),) = certainty.differences("wmean").items()
    for i, row in enumerate(table):
        for j, found in enumerate(row):
            back = table[j][i]
            if i == j:
                assert found is None
            else:
                assert found is not None
                assert back is not None
                assert (found.value, found.low) == pytest.approx((-back.value, -back.high))


def test_rows_get_their_interval(tmp_path: Path) -> None:
    mine = cells()
    certainty = Certainty.of(mine, filled(tmp_path, mine), resamples=100, seed=0)
    empty = {"alignment": 0.1, "uniformity": -1.0, "mean_cosine": 0.1}
    figures = TaskFigures(
        "A", "test", 0.5, 0.5, 0.5, PAIRS, (), positives=1, sentences=2, uniformity_sentences=2, **empty
    )
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

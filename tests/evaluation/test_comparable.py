"""Whatever is bold, best, averaged or in a verdict is finite and over the same tasks and seeds, whatever is missing."""

import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from rich.console import Console

from flowbert.calibration import Standardization
from flowbert.data.corpus import Corpus
from flowbert.data.sts import STSTask, Subset
from flowbert.evaluation.comparison import Comparison
from flowbert.evaluation.grid import Cell, Source
from flowbert.evaluation.intervals import Intervals
from flowbert.evaluation.results import Row, rows_of
from flowbert.evaluation.scores import ScoreFolder
from flowbert.evaluation.sweep import best_layers
from flowbert.methods import Chain, Method
from flowbert.report.comparison import comparison_to_markdown
from flowbert.report.files import write_csv
from flowbert.report.render import print_table, table_to_markdown
from flowbert.report.table import spearman_table
from flowbert.tasks import STS, Measured
from flowbert.tasks.protocol import AGGREGATIONS
from flowbert.tasks.replicates import Replicates

METHODS = ("raw", "one", "two", "three")
LAYERS = ("last", "first", "both")
SEEDS = (0, 1)
QUIET = pytest.mark.filterwarnings("ignore::flowbert.errors.FlowbertWarning")


@dataclass(frozen=True)
class Grid:
    """A random grid: its cells, its similarities, and its rows."""

    cells: list[Cell]
    scores: ScoreFolder
    rows: list[Row]


def random_grid(number: int, folder: Path) -> Grid:
    """Tasks x subsets x methods x seeds with holes of every kind."""
    rng = np.random.default_rng(number)
    tasks = []
    for name in "ABCD"[: rng.integers(1, 5)]:
        splits = {}
        for split in ("test", "dev") if rng.random() < 0.7 else ("test",):
            sizes = [1 if rng.random() < 0.07 else int(rng.integers(2, 9)) for _ in range(rng.integers(1, 4))]
            splits[split] = [subset(rng, f"{name}{n}", size) for n, size in enumerate(sizes)]
        task = STSTask(name, splits)
        tasks += [STS(task, split) for split in splits]
    scores, cells, rows = ScoreFolder(folder), [], []
    for layers in LAYERS[: rng.integers(1, 4)]:
        columns = {"encoder": "e", "layers": layers, "pooling": "mean"}
        source = Source(columns, {"layers": layers}, 1, lambda _: np.zeros((1, 1)), lambda _: None)
        for name in METHODS[: rng.integers(1, 5)]:
            seeds: Sequence[int | None] = SEEDS if name == "three" else (None,)
            method = Method(name, build=None if name == "raw" else lambda _: Chain([Standardization()]))
            for task_ in tasks:
                for seed in seeds:
                    if rng.random() < 0.08:
                        continue  # a missing method, or a missing seed
                    cell = Cell(source, task_, method, None if name == "raw" else Corpus.of("target", "ab"), seed)
                    items = similarities(rng, task_)
                    scores.add(cell, items)
                    cells.append(cell)
                    rows += measured(cell, items, rng)
    return Grid(cells, scores, rows)


def subset(rng: np.random.Generator, name: str, size: int) -> Subset:
    texts = tuple(f"{name} {n}" for n in range(size))
    return Subset(name, texts, texts, rng.integers(0, 6, size).astype(np.float64))  # ties, sometimes all the same


def similarities(rng: np.random.Generator, task: STS) -> NDArray[np.float64]:
    kind = rng.random()
    gold = [each.scores for each in task.subsets]
    values = np.concatenate([np.round(rng.normal(size=len(scores)) + scores, 1) for scores in gold])
    if kind < 0.06:
        values[:] = np.nan
    elif kind < 0.12:
        values[:] = 1
    elif kind < 0.15:
        values[-len(gold[-1])] = np.inf
    return values


def measured(cell: Cell, items: NDArray[np.float64], rng: np.random.Generator) -> list[Row]:
    geometry = {name: math.nan if rng.random() < 0.1 else float(rng.normal()) for name in ("alignment", "uniformity")}
    found = cell.task.measure_items(items, "holes")
    return rows_of(Measured(found.figures, items, {**found.columns, **geometry}), **cell.columns)


@pytest.fixture(params=range(20))
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Grid:
    found = random_grid(request.param, tmp_path / "scores")
    if not found.cells:
        pytest.skip("nothing in this grid")
    return found


def of(rows: Sequence[Row], aggregation: str, **wanted: object) -> list[Row]:
    return [
        row for row in rows if row.aggregation == aggregation and all(getattr(row, k) == v for k, v in wanted.items())
    ]


@QUIET
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_the_table(made: Grid, aggregation: str, tmp_path: Path) -> None:
    content = spearman_table(made.rows, aggregation)
    tasks = [name for name in content.columns if name not in ("Avg", "alignment", "uniformity")]
    places = {name: place for place, name in enumerate(content.columns)}
    for label, place in content.best:
        assert math.isfinite(content.cells[label][place].figure)
    averaged: dict[object, set[tuple[str, ...]]] = {}
    for label, cells in content.cells.items():
        group = content.group[label]
        method = label.split(",")[0].split(" (")[0]
        layers = next((name for name in LAYERS if re.search(rf"\b{name}\b", label)), made.rows[0].layers)
        mine = of(made.rows, aggregation, method=method, split=group[0], layers=layers)
        seeds = {row.seed for row in mine}
        if "Avg" in places and math.isfinite(cells[places["Avg"]].figure):
            by_task = {t: [r for r in mine if r.task == t] for t in tasks}
            whole = {
                t: rows for t, rows in by_task.items()
                if {r.seed for r in rows} == seeds and all(math.isfinite(r.spearman) for r in rows)
            }  # fmt: skip
            averaged.setdefault(group, set()).add(tuple(whole))
            expected = np.mean([np.mean([100 * r.spearman for r in rows]) for rows in whole.values()])
            assert cells[places["Avg"]].figure == pytest.approx(expected)
        elif "Avg" in places:
            named = any("left out of Avg" in note and label in note for note in content.notes)
            group_labels = [other for other, each in content.group.items() if each == group]
            nothing = all(
                not math.isfinite(c.figure) for o in group_labels for c in content.cells[o][: len(tasks)] if c.ranked
            )
            assert named or nothing
    assert all(len(found) == 1 for found in averaged.values()), "averages over different tasks"
    assert all("\n" not in note for note in content.notes)
    if any(not math.isfinite(row.spearman) for row in of(made.rows, aggregation)):
        assert "nan: holes" in content.notes
    text = table_to_markdown(content)
    assert "inf" not in text.replace("inference", "")
    file = io.StringIO()
    print_table(content, Console(file=file, width=80, force_terminal=True))
    for bold in re.findall(r"\x1b\[1m *([^\x1b ]+) *\x1b", file.getvalue()):
        assert bold != "nan"
    write_csv(tmp_path / "r.csv", made.rows)


def averages(intervals: Intervals, aggregation: str) -> dict[tuple[str, ...], Replicates]:
    found = [each for each in intervals.comparisons(aggregation) if each.kind == "average"]
    return {each.shared: each.replicates for each in found if each.replicates is not None}


@QUIET
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_verdicts_and_averages(made: Grid, aggregation: str) -> None:
    intervals = Intervals.of(made.cells, made.scores, resamples=20, seed=0)
    for replicates in averages(intervals, aggregation).values():
        assert np.isfinite(replicates.points).all()
    for group, replicates in averages(intervals, aggregation).items():
        # The average of every method is over the same tasks, each with all of its seeds.
        rows = [r for r in of(made.rows, aggregation, split=group[3]) if r.layers == group[1]]
        by_method = {m: [r for r in rows if r.method == m] for m in replicates.methods}
        count = int(replicates.name.split()[2]) if " of " in replicates.name else 1
        for method, mine in by_method.items():
            tasks = {t: [r.spearman for r in mine if r.task == t] for t in dict.fromkeys(r.task for r in mine)}
            most = max(map(len, tasks.values()))
            whole = [np.mean(v) for v in tasks.values() if len(v) == most and np.isfinite(v).all()]
            if len(whole) == count:
                assert replicates.points[replicates.methods.index(method)] == pytest.approx(np.mean(whole))
    for line in intervals.verdicts(aggregation):
        assert "nan" not in line
        assert "inf" not in line
    for names, table in intervals.differences(aggregation).values():
        assert len(names) > 1
        assert all(found is None or math.isfinite(found.value) for row in table for found in row)
    for interval in intervals.averages(aggregation).values():
        assert math.isfinite(interval.value)
    there = {m for replicates in averages(intervals, aggregation).values() for m in replicates.methods}
    told = " ".join(intervals.left_out(aggregation))
    groups = {(c.source.columns["layers"], c.task.split) for c in made.cells}
    if len(groups) == 1 and there:
        assert all(method in there or method in told for method in {c.method.name for c in made.cells})
    text = comparison_to_markdown(Comparison(made.rows, intervals))
    assert "[nan" not in text
    for row in intervals.rows(made.rows):
        assert math.isfinite(row.spearman) or math.isnan(row.low)


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_layers(made: Grid, aggregation: str) -> None:
    for choice in best_layers(made.rows, aggregation):
        assert all(map(math.isfinite, (choice.dev, choice.test, choice.test_best)))
        assert choice.test_best >= choice.test
        rows = of(made.rows, aggregation, method=choice.method, split="dev", layers=choice.by_dev)
        mine = {task: [r.spearman for r in rows if r.task == task] for task in choice.dev_tasks}
        assert choice.dev == pytest.approx(np.mean([np.mean(values) for values in mine.values()]))
        assert "nan" not in choice.text().split(" left out")[0]

"""Figures of a fit as ``evaluate`` gives them: rows, intervals, averages, which method to use."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from flowbert.callbacks.sts_evaluation import MethodFigures
from flowbert.data.sts import STSTask
from flowbert.evaluation.comparison import AGGREGATION, Comparison
from flowbert.evaluation.intervals import Intervals
from flowbert.evaluation.results import Row, rows_of
from flowbert.tasks.protocol import AGGREGATIONS, Floats
from flowbert.tasks.replicates import Replicates
from flowbert.tasks.sts import STS
from flowbert.tasks.verdict import verdict


def rows_of_fit(
    figures: Sequence[MethodFigures], corpus: Mapping[str, Any], seed: int, encoder: Mapping[str, Any]
) -> list[Row]:
    """Rows of every method.

    Args:
        figures: The figures.
        corpus: What was fitted on: its name, and how many sentences.
        seed: Seed of what was trained.
        encoder: Columns that describe the encoder.
    """
    return [
        row
        for found in figures
        for row in rows_of(
            found.figures.measured,
            method=found.method,
            corpus="none" if found.method == "raw" else corpus["name"],
            fitted=0 if found.method == "raw" else corpus["fitted"],
            seed=seed if found.trained else None,
            **encoder,
        )
    ]


def intervals_of(tasks: Sequence[STSTask], figures: Sequence[MethodFigures]) -> Intervals:
    """The 95% intervals that ``evaluate`` gives equal figures: the same resamples of the same pairs."""
    resampled = ((STS(data, split), items) for data, split, items in similarities_of(tasks, figures))
    return Intervals({task: task.resample(items) for task, items in resampled}, ())


def similarities_of(
    tasks: Iterable[STSTask], figures: Sequence[MethodFigures]
) -> Iterator[tuple[STSTask, str, dict[str, Floats]]]:
    """Each task with the split that it was measured on, and the similarities of its pairs by method."""
    for task in tasks:
        mine = [each for each in figures if each.figures.task == task.name]
        yield task, mine[0].figures.split, {each.method: each.figures.similarities for each in mine}


def joined(intervals: Intervals, other: Comparison) -> Intervals:
    """The intervals of a fit, the methods of a comparison on the same resamples of the same tasks behind its own."""
    names = {row.setting: _name(row) for row in other.rows}
    theirs = {(task.name, task.split): found for task, found in other.intervals.replicates.items()}
    return Intervals(
        {
            task: {
                measure: _beside(mine, theirs[task.name, task.split][measure], names)
                for measure, mine in by_measure.items()
            }
            for task, by_measure in intervals.replicates.items()
        },
        (),
    )


def _beside(mine: Replicates, theirs: Replicates, names: Mapping[str, str]) -> Replicates:
    methods = (*mine.methods, *(names[setting] for setting in theirs.methods))
    points, values = (np.concatenate(both) for both in ((mine.points, theirs.points), (mine.values, theirs.values)))
    return Replicates(mine.name, methods, points, values)


def _name(row: Row) -> str:
    """Name of a method in a verdict; one of a comparison, which alone has a digest of its setting, tells this, too."""
    return f"{row.method} ({row.layers}, {row.pooling})" if row.setting else row.method


def record_of(rows: Sequence[Row], intervals: Intervals) -> dict[str, Any]:
    """Verdicts and intervals of averages, as JSON values; tasks of different splits are never averaged."""
    keys = {
        (_name(row), row.split): [row.encoder, row.layers, row.pooling, row.split, row.corpus, row.method]
        for row in rows
    }
    averages: dict[str, list[Any]] = {name: [] for name in AGGREGATIONS}
    verdicts: list[str] = []
    for split in dict.fromkeys(row.split for row in rows):
        mine = Intervals({task: each for task, each in intervals.replicates.items() if task.split == split}, ())
        for name in AGGREGATIONS:
            found, left_out = mine.of_methods(name)
            usable = found.usable() if found is not None else ()
            if found is not None:
                ends = [(method, found.interval(method)) for method in usable]
                averages[name] += [[*keys[method, split], each.low, each.high] for method, each in ends]
            if name == AGGREGATION:
                if found is not None and len(usable) > 1:
                    best = verdict(found, label=f"{split}, {found.name}" if split != "test" else None)
                    verdicts.append(f"{best.text}. Use: {best.use}")
                verdicts += left_out
    return {"verdicts": verdicts, "averages": averages}

"""Figures of a fit as ``evaluate`` gives them: intervals, averages, which method to use."""

from collections.abc import Sequence
from typing import Any

import torch

from flowbert.callbacks.sts_evaluation import MethodFigures
from flowbert.data.sts import STSTask
from flowbert.evaluation.comparison import AGGREGATION
from flowbert.evaluation.intervals import Intervals
from flowbert.evaluation.results import Row
from flowbert.tasks.base import Task
from flowbert.tasks.protocol import AGGREGATIONS
from flowbert.tasks.sts import STS
from flowbert.tasks.verdict import verdict


def intervals_of(tasks: Sequence[STSTask], figures: Sequence[MethodFigures]) -> Intervals:
    """The 95% intervals that ``evaluate`` gives equal figures: the same resamples of the same pairs."""
    found: dict[Task, Any] = {}
    for data in tasks:
        mine = [each for each in figures if each.figures.task == data.name]
        task = STS(data, mine[0].figures.split)
        items = {each.method: each.figures.similarities for each in mine}
        found[task] = task.resample(items, threads=torch.get_num_threads())
    return Intervals(found, ())


def record_of(rows: Sequence[Row], intervals: Intervals) -> dict[str, Any]:
    """Verdicts and intervals of averages, as JSON values; tasks of different splits are never averaged."""
    keys = {(row.method, row.split): [row.encoder, row.layers, row.pooling, row.split, row.corpus] for row in rows}
    averages: dict[str, list[Any]] = {name: [] for name in AGGREGATIONS}
    verdicts: list[str] = []
    for split in dict.fromkeys(row.split for row in rows):
        mine = Intervals({task: each for task, each in intervals.replicates.items() if task.split == split}, ())
        for name in AGGREGATIONS:
            found, left_out = mine.of_methods(name)
            usable = found.usable() if found is not None else ()
            if found is not None:
                ends = [(method, found.interval(method)) for method in usable]
                averages[name] += [[*keys[method, split], method, each.low, each.high] for method, each in ends]
            if name == AGGREGATION:
                if found is not None and len(usable) > 1:
                    best = verdict(found, label=f"{split}, {found.name}" if split != "test" else None)
                    verdicts.append(f"{best.text}. Use: {best.use}")
                verdicts += left_out
    return {"verdicts": verdicts, "averages": averages}

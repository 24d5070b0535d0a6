"""95% confidence intervals of a comparison: of figures, of differences, and which method to use."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from flowbert.evaluation.comparable import Comparable
from flowbert.evaluation.grid import Cell
from flowbert.evaluation.results import Row
from flowbert.evaluation.scores import ScoreFolder
from flowbert.progress import tracked
from flowbert.tasks.base import Measure, Task
from flowbert.tasks.replicates import Interval, Replicates, average
from flowbert.tasks.verdict import verdict

Group = tuple[str, ...]
"""Encoder, layers, pooling, split, corpus: what methods in one verdict share."""


class PairedComparison(NamedTuple):
    """Methods, or encoders, on the same resamples.

    Attributes:
        kind: ``average`` over tasks, single ``task``, or ``encoders``: one method on several, averaged over tasks.
        shared: What is compared has this in common.
        decides: Whether a verdict goes by it.
        replicates: Of those that have a figure on all tasks; None without any.
        left_out: What lacks a figure, in lines.
    """

    kind: str
    shared: Group
    decides: bool
    replicates: Replicates | None
    left_out: list[str]


@dataclass(frozen=True, eq=False)
class Intervals:
    """Replicates of every cell.

    Attributes:
        replicates: Task -> measure -> the figure of each of its cells on the same resamples, named by setting.
        cells: The cells.
    """

    replicates: Mapping[Task, Mapping[Measure, Replicates]]
    cells: tuple[Cell, ...]

    @classmethod
    def of(cls, cells: Sequence[Cell], scores: ScoreFolder, *, resamples: int, seed: int) -> "Intervals":
        """Resample each task once for all of its cells, whatever the encoder: every two can be compared."""
        found = {}
        for task in tracked(dict.fromkeys(cell.task for cell in cells), "Intervals", "tasks"):
            items = scores.items([cell for cell in cells if cell.task is task])
            if items:
                found[task] = task.resample(items, resamples=resamples, seed=seed)
        return cls(found, tuple(cells))

    def of_task(self, task: Task, aggregation: str) -> Replicates | None:
        """Replicates of a task's headline figure, methods named by setting; None without intervals or a headline."""
        return dict(self._figures(task, aggregation)).get(task.headline or "")

    def rows(self, rows: Sequence[Row]) -> list[Row]:
        """Rows with their intervals, where there are any."""
        found = {
            (task.name, task.split, *measure, method): replicates
            for task, by_measure in self.replicates.items()
            for measure, replicates in by_measure.items()
            for method in replicates.methods
        }

        def with_interval(row: Row) -> Row:
            name = row.setting or row.method
            replicates = found.get((row.task, row.split, row.metric, row.aggregation, name))
            if replicates is None or not math.isfinite(row.value):
                return row
            interval = replicates.interval(name)
            return replace(row, low=interval.low, high=interval.high)

        return [with_interval(row) for row in rows]

    def comparisons(self, aggregation: str = "wmean") -> list[PairedComparison]:
        """Everything that is compared: the average over tasks by group, single tasks by group, encoders."""
        return [*self._averages(aggregation), *self._single_tasks(aggregation), *self._encoders(aggregation)]

    def averages(self, aggregation: str) -> dict[Group, Interval]:
        """Interval of the average over the tasks, by group and method (the last entry)."""
        return {
            (*found.shared, method): found.replicates.interval(method)
            for found in self._averages(aggregation)
            if found.replicates is not None
            for method in found.replicates.methods
        }

    def of_methods(self, aggregation: str) -> tuple[Replicates | None, list[str]]:
        """The average over the tasks where names are those of methods, not of cells; and what is left out, in lines."""
        by_task = [self.of_task(task, aggregation) for task in self.replicates if task.averaged]
        there = [each for each in by_task if each is not None]
        return _average(there, "the average and the verdict") if there else (None, [])

    def left_out(self, aggregation: str) -> list[str]:
        """What is in no average or verdict because it lacks figures, in lines."""
        return list(dict.fromkeys(line for found in self.comparisons(aggregation) for line in found.left_out))

    def verdicts(self, aggregation: str) -> list[str]:
        """A line per group of two methods or more: which to use, or that it is noise; then a line between encoders."""
        told = [(found, each) for found, each in self._of_several(aggregation) if found.decides]
        groups = [found.shared for found, _ in told if found.kind != "encoders"]
        varying = [len({group[place] for group in groups}) > 1 for place in range(4)]
        lines = []
        for found, replicates in told:
            label = ["between encoders", *found.shared]
            if found.kind != "encoders":
                *names, corpus = found.shared
                label = [name for name, differs in zip(names, varying, strict=True) if differs] + [f"corpus {corpus}"]
            best = verdict(replicates, label=", ".join([*label, replicates.name]))
            lines.append(f"{best.text}. Use: {best.use}")
        return lines

    def differences(self, aggregation: str) -> dict[str, tuple[tuple[str, ...], list[list[Interval | None]]]]:
        """Title -> names, and row minus column on the same resamples: of any two methods, of any two encoders."""
        titles = {"average": f"{aggregation}, {{}}: {{}}", "task": "{}: {}"}
        titles["encoders"] = f"{aggregation}, {{}}, between encoders: {{}}"
        return {
            titles[found.kind].format(each.name, ", ".join(found.shared)): (
                each.methods,
                [[None if a == b else each.difference(a, b) for b in each.methods] for a in each.methods],
            )
            for found, each in self._of_several(aggregation)
        }

    def _of_several(self, aggregation: str) -> list[tuple[PairedComparison, Replicates]]:
        found = [(each, each.replicates) for each in self.comparisons(aggregation)]
        return [(each, replicates) for each, replicates in found if replicates and len(replicates.methods) > 1]

    def _figures(self, task: Task, aggregation: str) -> list[tuple[str, Replicates]]:
        """Each metric of a task with its replicates, under this aggregation if the metric has it."""
        by_measure = self.replicates.get(task, {})
        return [
            (metric, replicates)
            for (metric, name), replicates in by_measure.items()
            if name == aggregation or (metric, aggregation) not in by_measure
        ]

    def _averages(self, aggregation: str) -> list[PairedComparison]:
        headlines = [(task, self.of_task(task, aggregation)) for task in self.replicates if task.averaged]
        found = []
        for group in self._groups():
            by_task = [self._of_group(group, task, each) for task, each in headlines if each is not None]
            there = [each for each in by_task if each is not None]
            if there:
                averaged = _average(there, f"averages and verdicts ({', '.join(group)})")
                found.append(PairedComparison("average", group, True, *averaged))
        return found

    def _single_tasks(self, aggregation: str) -> list[PairedComparison]:
        """Each metric of every task that enters no average."""
        found = []
        for task in self.replicates:
            for metric, replicates in self._figures(task, aggregation) if not task.averaged else ():
                for group in self._groups():
                    each = self._of_group(group, task, replicates)
                    if each is not None:
                        usable, decides = each.usable(), metric == task.headline
                        lacking = ", ".join(method for method in each.methods if method not in usable)
                        line = f"left out of the verdict on {each.name} ({', '.join(group)}): {lacking}"
                        told = [line] if lacking and decides else []
                        found.append(PairedComparison("task", group, decides, each.only(usable), told))
        return found

    def _encoders(self, aggregation: str) -> list[PairedComparison]:
        """One method on several encoders, all else equal."""
        shared: dict[tuple[str, ...], dict[Task, dict[str, list[str]]]] = {}
        for cell in self.cells:
            encoder, *rest = group_of(cell)
            if cell.task.averaged:
                by_task = shared.setdefault((cell.method.shown, *rest), {})
                by_task.setdefault(cell.task, {}).setdefault(encoder, []).append(cell.setting)
        found = []
        for (method, layers, pooling, split, corpus), by_task in shared.items():
            most = max(len(settings) for members in by_task.values() for settings in members.values())
            seeds = {encoder: most for members in by_task.values() for encoder in members}
            headlines = [(self.of_task(task, aggregation), members) for task, members in by_task.items()]
            pooled = [_pooled(each, members, seeds) for each, members in headlines if each is not None]
            if len(seeds) > 1 and pooled:
                title = f"{method}, layers {layers}, pooling {pooling}, split {split}, corpus {corpus}"
                averaged = _average(pooled, f"the comparison of encoders ({title})")
                found.append(PairedComparison("encoders", (title,), True, *averaged))
        return found

    def _groups(self) -> list[Group]:
        fitted = [group_of(cell) for cell in self.cells if cell.corpus is not None]
        return list(dict.fromkeys(fitted or [group_of(cell) for cell in self.cells]))

    def _of_group(self, group: Group, task: Task, replicates: Replicates) -> Replicates | None:
        """Replicates of a group's methods on a task, by name, each the mean over its seeds."""
        members: dict[str, list[str]] = {}
        for cell in self.cells:
            # What is not fitted here stands beside every corpus.
            same = group_of(cell) == group or (cell.corpus is None and group_of(cell)[:-1] == group[:-1])
            if cell.task is task and same:
                members.setdefault(cell.method.shown, []).append(cell.setting)
        if not members:
            return None
        members |= {name: [name] for name in task.references}  # what is no method stands beside those of every group
        return _pooled(replicates, members, self._seeds)

    @cached_property
    def _seeds(self) -> dict[str, int]:
        """How many seeds each method has where it has most: with fewer a mean is of something else."""
        counts = Counter((cell.method.shown, cell.task, group_of(cell)) for cell in self.cells)
        return {name: count for (name, *_), count in sorted(counts.items(), key=lambda item: item[1])}


def group_of(cell: Cell) -> Group:
    """Encoder, layers, pooling, split and corpus of a cell."""
    columns = cell.columns
    return (*(str(columns[name]) for name in ("encoder", "layers", "pooling")), cell.task.split, columns["corpus"])


def _average(by_task: Sequence[Replicates], what: str) -> tuple[Replicates | None, list[str]]:
    """Average over the tasks of the methods with a figure on each of them, and lines about what is left out."""
    figures: dict[str, dict[str, float]] = {method: {} for each in by_task for method in each.methods}
    for each in by_task:
        for method in each.usable():
            figures[method][each.name] = each.interval(method).value
    found = Comparable.of(figures, [each.name for each in by_task])
    lines = found.told(what)
    if not found.rows:
        return None, lines
    whole = [each.only(found.rows) for each in by_task if each.name in found.columns]
    averaged = whole[0] if len(whole) == 1 else average(whole, f"average of {len(whole)} tasks")
    usable = averaged.usable()
    if len(usable) < len(found.rows):  # tiny tasks: on each resample some task has no figure
        lines.append(f"left out of {what}, no resample has all tasks: {', '.join(set(found.rows) - set(usable))}")
    return averaged.only(usable) if usable else None, lines


def _pooled(replicates: Replicates, members: Mapping[str, Sequence[str]], seeds: Mapping[str, int]) -> Replicates:
    """The mean over each method's seeds under its name; without a figure if some of its seeds are missing."""
    pooled = replicates.pooled(members)
    lacking = [len(settings) < seeds.get(name, 1) for name, settings in members.items()]
    return replace(pooled, points=np.where(lacking, math.nan, pooled.points))

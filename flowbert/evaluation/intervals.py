"""95% confidence intervals of a comparison: of figures, of differences, and which method to use."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from flowbert.evaluation.comparable import Comparable
from flowbert.evaluation.grid import Cell
from flowbert.evaluation.results import Row
from flowbert.evaluation.scores import ScoreFolder
from flowbert.tasks.base import Measure, Task
from flowbert.tasks.replicates import Interval, Replicates, average
from flowbert.tasks.verdict import verdict

Group = tuple[str, ...]
"""Encoder, layers, pooling, split, corpus: what methods in one verdict share."""
Averaged = tuple[Replicates | None, list[str]]
"""An average over tasks, if there is any, and lines about what is left out of it."""


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
    def of(
        cls, cells: Sequence[Cell], scores: ScoreFolder, *, resamples: int, seed: int, threads: int = 1
    ) -> "Intervals":
        """Resample each task once for all of its cells, whatever the encoder: every two can be compared."""
        found = {}
        for task in dict.fromkeys(cell.task for cell in cells):
            items = scores.items([cell for cell in cells if cell.task is task])
            if items:
                found[task] = task.resample(items, resamples=resamples, seed=seed, threads=threads)
        return cls(found, tuple(cells))

    def of_task(self, task: Task, aggregation: str) -> Replicates | None:
        """Replicates of a task's headline figure, methods named by setting; None without intervals or a headline."""
        return next((each for metric, each in self._figures(task, aggregation) if metric == task.headline), None)

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

    def averages(self, aggregation: str) -> dict[Group, Interval]:
        """Interval of the average over the tasks, by group and method (the last entry), for more than one task."""
        return {
            (*group, method): replicates.interval(method)
            for group, replicates in self.groups(aggregation).items()
            for method in replicates.methods
        }

    def groups(self, aggregation: str = "wmean") -> dict[Group, Replicates]:
        """Average over the tasks, by group; methods by name, several seeds of one as their mean.

        All methods of a group have a figure on all of its tasks; :meth:`left_out` names the others.
        """
        return {group: found for group, (found, _) in self._averaged(aggregation).items() if found is not None}

    def left_out(self, aggregation: str) -> list[str]:
        """What is in no average or verdict because it lacks figures, in lines."""
        averages = (*self._averaged(aggregation).values(), *self._between(aggregation).values())
        lines = [line for _, told in averages for line in told]
        for group, decides, replicates in self._single(aggregation):
            usable = replicates.usable()
            lacking = [method for method in replicates.methods if method not in usable]
            if lacking and decides:
                lines.append(f"left out of the verdict on {replicates.name} ({', '.join(group)}): {', '.join(lacking)}")
        return list(dict.fromkeys(lines))

    def verdicts(self, aggregation: str) -> list[str]:
        """A line per group of two methods or more: which to use, or that it is noise; then a line between encoders.

        Groups are the average over the tasks that enter one, and each other task by its headline metric.
        """
        found = [(group, each) for group, _, decides, each in self._comparisons(aggregation) if decides]
        varying = [len({group[place] for group, _ in found}) > 1 for place in range(4)]
        lines = []
        for group, replicates in found:
            told = [name for name, differs in zip(group[:4], varying, strict=True) if differs]
            lines.append(_verdict(replicates, [*told, f"corpus {group[4]}", replicates.name]))
        for title, replicates in self.between_encoders(aggregation).items():
            lines.append(_verdict(replicates, ["between encoders", title, replicates.name]))
        return lines

    def differences(self, aggregation: str) -> dict[str, tuple[tuple[str, ...], list[list[Interval | None]]]]:
        """Title -> names, and row minus column on the same resamples: of any two methods, of any two encoders."""
        found = {
            f"{aggregation + ', ' if averaged else ''}{replicates.name}: {', '.join(group)}": replicates
            for group, averaged, _, replicates in self._comparisons(aggregation)
        }
        found |= {
            f"{aggregation}, {replicates.name}, between encoders: {title}": replicates
            for title, replicates in self.between_encoders(aggregation).items()
        }
        return {
            title: (
                each.methods,
                [[None if a == b else each.difference(a, b) for b in each.methods] for a in each.methods],
            )
            for title, each in found.items()
        }

    def between_encoders(self, aggregation: str = "wmean") -> dict[str, Replicates]:
        """One method on several encoders, all else equal, averaged over the tasks: by what they share."""
        found = {title: each for title, (each, _) in self._between(aggregation).items()}
        return {title: each for title, each in found.items() if each is not None and len(each.methods) > 1}

    def _figures(self, task: Task, aggregation: str) -> list[tuple[str, Replicates]]:
        """Each metric of a task with its replicates, under this aggregation if the metric has it."""
        by_measure = self.replicates.get(task, {})
        return [
            (metric, replicates)
            for (metric, name), replicates in by_measure.items()
            if name == aggregation or (metric, aggregation) not in by_measure
        ]

    def _comparisons(self, aggregation: str) -> list[tuple[Group, bool, bool, Replicates]]:
        """Group, whether it is an average, whether a verdict goes by it, and the replicates of methods with figures."""
        found = [(group, True, True, replicates) for group, replicates in self.groups(aggregation).items()]
        found += [
            (group, False, decides, replicates.only(replicates.usable()))
            for group, decides, replicates in self._single(aggregation)
        ]
        return [item for item in found if len(item[3].methods) > 1]

    def _averaged(self, aggregation: str) -> dict[Group, Averaged]:
        found = {}
        for group in self._group_names():
            by_task = {}
            for task in self.replicates:
                headline = self.of_task(task, aggregation) if task.averaged else None
                replicates = None if headline is None else self._of_group(group, task, headline)
                if replicates is not None:
                    by_task[replicates.name] = replicates
            if by_task:
                found[group] = _average(by_task, f"averages and verdicts ({', '.join(group)})")
        return found

    def _single(self, aggregation: str) -> list[tuple[Group, bool, Replicates]]:
        """Group, whether a verdict goes by it, and replicates: each metric of every task that enters no average."""
        found = []
        for task in self.replicates:
            for metric, replicates in self._figures(task, aggregation) if not task.averaged else ():
                of_group = ((group, self._of_group(group, task, replicates)) for group in self._group_names())
                found += [(group, metric == task.headline, each) for group, each in of_group if each is not None]
        return found

    def _between(self, aggregation: str) -> dict[str, Averaged]:
        shared: dict[tuple[str, ...], dict[Task, dict[str, list[str]]]] = {}
        for cell in self.cells:
            if cell.task.averaged and cell.task in self.replicates:
                encoder, *rest = group_of(cell)
                by_task = shared.setdefault((cell.method.shown, *rest), {})
                by_task.setdefault(cell.task, {}).setdefault(encoder, []).append(cell.setting)
        found = {}
        for (method, layers, pooling, split, corpus), by_task in shared.items():
            seeds = {encoder: 0 for members in by_task.values() for encoder in members}
            if len(seeds) > 1:
                title = f"{method}, layers {layers}, pooling {pooling}, split {split}, corpus {corpus}"
                seeds = dict.fromkeys(seeds, max(len(each) for mine in by_task.values() for each in mine.values()))
                pooled = {
                    replicates.name: _pooled(replicates, members, seeds)
                    for task, members in by_task.items()
                    if (replicates := self.of_task(task, aggregation)) is not None
                }
                found[title] = _average(pooled, f"the comparison of encoders ({title})")
        return found

    def _group_names(self) -> list[Group]:
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
        return _pooled(replicates, members, self._seeds(members))

    def _seeds(self, members: Mapping[str, Sequence[str]]) -> dict[str, int]:
        """How many seeds each method has where it has most: with fewer a mean is of something else."""
        counts: dict[tuple[str, Task, Group], int] = {}
        for cell in self.cells:
            key = (cell.method.shown, cell.task, group_of(cell))
            counts[key] = counts.get(key, 0) + 1
        return {name: max((n for (method, *_), n in counts.items() if method == name), default=1) for name in members}


def group_of(cell: Cell) -> Group:
    """Encoder, layers, pooling, split and corpus of a cell."""
    columns = cell.columns
    return (*(str(columns[name]) for name in ("encoder", "layers", "pooling")), cell.task.split, columns["corpus"])


def _verdict(replicates: Replicates, label: Sequence[str]) -> str:
    found = verdict(replicates, label=", ".join(label))
    return f"{found.text}. Use: {found.use}"


def _average(by_task: Mapping[str, Replicates], what: str) -> Averaged:
    """Average over the tasks of the methods with a figure on each of them, and lines about what is left out."""
    figures: dict[str, dict[str, float]] = {method: {} for each in by_task.values() for method in each.methods}
    for task, each in by_task.items():
        for method in each.usable():
            figures[method][task] = each.interval(method).value
    found = Comparable.of(figures, list(by_task))
    lines = found.told(what)
    if not found.rows:
        return None, lines
    whole = [each.only(found.rows) for task, each in by_task.items() if task in found.columns]
    averaged = whole[0] if len(whole) == 1 else average(whole, f"average of {len(whole)} tasks")
    usable = averaged.usable()
    if len(usable) < len(found.rows):  # tiny tasks: on each resample some task has no figure
        lines.append(f"left out of {what}, no resample has all tasks: {', '.join(set(found.rows) - set(usable))}")
    return averaged.only(usable) if usable else None, lines


def _pooled(replicates: Replicates, members: Mapping[str, Sequence[str]], seeds: Mapping[str, int]) -> Replicates:
    """The mean over each method's seeds under its name; without a figure if some of its seeds are missing."""
    pooled = replicates.pooled(members)
    lacking = [len(settings) < seeds[name] for name, settings in members.items()]
    pooled.points[lacking] = math.nan
    return pooled

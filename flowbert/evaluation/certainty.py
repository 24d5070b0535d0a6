"""How sure the figures of a comparison are: intervals, differences, and which method to use."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from flowbert.evaluation.bootstrap import Interval, Replicates, average, bootstrap, verdict
from flowbert.evaluation.grid import Cell
from flowbert.evaluation.jobs import AnswersJob, Job, STSJob
from flowbert.evaluation.ranking_bootstrap import bootstrap_ranking
from flowbert.evaluation.results import Row
from flowbert.evaluation.scores import ScoreFolder

Group = tuple[str, ...]
"""Encoder, layers, pooling, split, corpus: what methods in one verdict share."""


@dataclass(frozen=True, eq=False)
class Certainty:
    """Replicates of every cell.

    Attributes:
        by_job: STS job -> figures of each of its cells on the same resamples, named by setting.
        rankings: Job of answer ranking -> the same by metric.
        cells: The cells.
    """

    by_job: Mapping[Job, Replicates]
    rankings: Mapping[Job, Mapping[str, Replicates]]
    cells: tuple[Cell, ...]

    @classmethod
    def of(
        cls, cells: Sequence[Cell], scores: ScoreFolder, *, resamples: int, seed: int, threads: int = 1
    ) -> "Certainty":
        """Resample the pairs of each job once for all of its cells, whatever the encoder: every two can be compared."""
        by_job: dict[Job, Replicates] = {}
        rankings: dict[Job, Mapping[str, Replicates]] = {}
        for job in dict.fromkeys(cell.job for cell in cells):
            pairs = scores.pairs([cell for cell in cells if cell.job is job])
            if pairs is not None and isinstance(job, STSJob):
                by_job[job] = bootstrap(pairs, resamples=resamples, seed=seed, threads=threads)
            elif pairs is not None and isinstance(job, AnswersJob):
                rankings[job] = bootstrap_ranking(job.task, pairs, resamples=resamples, seed=seed)
        return cls(by_job, rankings, tuple(cells))

    def rows(self, rows: Sequence[Row]) -> list[Row]:
        """Rows with their intervals, where there are any."""
        found = {("spearman", name): each for each in self.by_job.values() for name in each.methods}
        for by_metric in self.rankings.values():
            found |= {(metric, name): each for metric, each in by_metric.items() for name in each.methods}
        return [_with_interval(row, found.get((row.metric, row.setting))) for row in rows]

    def averages(self, aggregation: str) -> dict[Group, Interval]:
        """Interval of the average over the tasks, by group and method (the last entry), for more than one task."""
        return {
            (*group, method): replicates.interval(method, aggregation)
            for group, replicates in self.groups().items()
            for method in replicates.methods
        }

    def groups(self) -> dict[Group, Replicates]:
        """Average over the tasks, by group; methods by name, several seeds of one as their mean."""
        found = {}
        for group in self._group_names():
            parts = [self._part(job, each, group) for job, each in self.by_job.items() if job.split == group[3]]
            kept = [part for part in parts if part is not None]
            if kept and all(part.methods == kept[0].methods for part in kept):
                found[group] = kept[0] if len(kept) == 1 else average(kept, f"average of {len(kept)} tasks")
        return found

    def _group_names(self) -> list[Group]:
        fitted = [group_of(cell) for cell in self.cells if cell.corpus is not None]
        return list(dict.fromkeys(fitted or [group_of(cell) for cell in self.cells]))

    def _part(self, job: Job, replicates: Replicates, group: Group) -> Replicates | None:
        """Replicates of a group's methods on a job, by name, seeds pooled."""
        members: dict[str, list[str]] = {}
        for cell in self.cells:
            # What is not fitted here stands beside every corpus.
            same = group_of(cell) == group or (cell.corpus is None and group_of(cell)[:-1] == group[:-1])
            if cell.job is job and same:
                members.setdefault(cell.method.shown, []).append(cell.setting)
        rows = [[replicates.methods.index(setting) for setting in settings] for settings in members.values()]
        if not rows:
            return None
        points = np.stack([replicates.points[row].mean(axis=0) for row in rows])
        values = np.stack([replicates.values[row].mean(axis=0) for row in rows])
        return Replicates(replicates.task, tuple(members), points, values, replicates.pairs, replicates.seed)

    def verdicts(self, aggregation: str) -> list[str]:
        """A line per group of two methods or more, and per answer ranking (AUC): which to use, or that it is noise."""
        found = list(self.groups().items())
        for job, by_metric in self.rankings.items():
            parts = [(group, self._part(job, by_metric["auc"], group)) for group in self._group_names()]
            found += [(group, part) for group, part in parts if part is not None]
        names = [group for group, _ in found]
        varying = [len({name[place] for name in names}) > 1 for place in range(4)]
        lines = []
        for group, replicates in found:
            if len(replicates.methods) < 2 or np.isnan(replicates.points).any():
                continue
            told = [part for part, differs in zip(group[:4], varying, strict=True) if differs]
            label = ", ".join([*told, f"corpus {group[4]}", replicates.task])
            verdict_found = verdict(replicates, aggregation, label=label)
            lines.append(f"{verdict_found.text}. Use: {verdict_found.use}")
        return lines

    def differences(self, aggregation: str) -> dict[Group, list[list[Interval | None]]]:
        """Method (row) minus method (column) on the same resamples, by group, in the order of the group's methods."""
        return {
            group: [[_difference(found, row, column, aggregation) for column in found.methods] for row in found.methods]
            for group, found in self.groups().items()
        }


def _difference(replicates: Replicates, method: str, other: str, aggregation: str) -> Interval | None:
    return None if method == other else replicates.difference(method, other, aggregation)


def _with_interval(row: Row, replicates: Replicates | None) -> Row:
    if replicates is None:
        return row
    interval = replicates.interval(row.setting, row.aggregation)
    return replace(row, low=interval.low, high=interval.high)


def group_of(cell: Cell) -> Group:
    """Encoder, layers, pooling, split and corpus of a cell."""
    columns = cell.columns
    return (*(str(columns[name]) for name in ("encoder", "layers", "pooling")), cell.job.split, columns["corpus"])

"""How sure the figures of a comparison are: intervals, differences, and which method to use."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from flowbert.evaluation.bootstrap import Interval, Replicates, average, bootstrap, verdict
from flowbert.evaluation.grid import Cell
from flowbert.evaluation.jobs import Job
from flowbert.evaluation.results import Row
from flowbert.evaluation.scores import ScoreFolder

Group = tuple[str, ...]
"""Encoder, layers, pooling, split, corpus: what methods in one verdict share."""


@dataclass(frozen=True, eq=False)
class Certainty:
    """Replicates of every cell.

    Attributes:
        by_job: Job -> figures of each of its cells on the same resamples, named by setting.
        cells: The cells.
    """

    by_job: Mapping[Job, Replicates]
    cells: tuple[Cell, ...]

    @classmethod
    def of(
        cls, cells: Sequence[Cell], scores: ScoreFolder, *, resamples: int, seed: int, threads: int = 1
    ) -> "Certainty":
        """Resample the pairs of each job once for all of its cells, whatever the encoder: every two can be compared."""
        found = {}
        for job in dict.fromkeys(cell.job for cell in cells):
            pairs = scores.pairs([cell for cell in cells if cell.job is job])
            if pairs is not None:
                found[job] = bootstrap(pairs, resamples=resamples, seed=seed, threads=threads)
        return cls(found, tuple(cell for cell in cells if cell.job in found))

    def rows(self, rows: Sequence[Row]) -> list[Row]:
        """Rows with their intervals, where there are any."""
        by_setting = {name: replicates for replicates in self.by_job.values() for name in replicates.methods}
        return [self._row(row, by_setting.get(row.setting)) for row in rows]

    def _row(self, row: Row, replicates: Replicates | None) -> Row:
        if replicates is None or row.metric != "spearman":
            return row
        interval = replicates.interval(row.setting, row.aggregation)
        return replace(row, low=interval.low, high=interval.high)

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
        for group in dict.fromkeys(group_of(cell) for cell in self.cells if cell.corpus is not None) or dict.fromkeys(
            group_of(cell) for cell in self.cells
        ):
            parts = [self._part(job, group) for job in self.by_job if job.split == group[3]]
            kept = [part for part in parts if part is not None]
            if kept and all(part.methods == kept[0].methods for part in kept):
                found[group] = kept[0] if len(kept) == 1 else average(kept, f"average of {len(kept)} tasks")
        return found

    def _part(self, job: Job, group: Group) -> Replicates | None:
        replicates = self.by_job[job]
        members: dict[str, list[str]] = {}
        for cell in self.cells:
            # What is not fitted here stands beside every corpus.
            same = group_of(cell) == group or (cell.corpus is None and group_of(cell)[:-1] == group[:-1])
            if cell.job is job and same:
                members.setdefault(cell.method.name, []).append(cell.setting)
        rows = [[replicates.methods.index(setting) for setting in settings] for settings in members.values()]
        if not rows:
            return None
        points = np.stack([replicates.points[row].mean(axis=0) for row in rows])
        values = np.stack([replicates.values[row].mean(axis=0) for row in rows])
        return Replicates(job.name, tuple(members), points, values, replicates.pairs, replicates.seed)

    def verdicts(self, aggregation: str) -> list[str]:
        """One line per group with at least two methods: which to use, or that the difference is noise."""
        groups = self.groups()
        shared = [len({group[place] for group in groups}) == 1 for place in range(5)]
        lines = []
        for group, replicates in groups.items():
            if len(replicates.methods) < 2 or np.isnan(replicates.points).any():
                continue
            told = [part for part, same in zip(group[:4], shared, strict=False) if not same]
            label = ", ".join([*told, f"corpus {group[4]}", replicates.task])
            found = verdict(replicates, aggregation, label=label)
            lines.append(f"{found.text}. Use: {found.use}")
        return lines

    def differences(self, aggregation: str) -> list[tuple[Group, str, str, Interval]]:
        """Every difference of two methods of a group, on the same resamples: group, method, other, interval."""
        return [
            (group, method, other, replicates.difference(method, other, aggregation))
            for group, replicates in self.groups().items()
            for number, method in enumerate(replicates.methods)
            for other in replicates.methods[:number]
        ]


def group_of(cell: Cell) -> Group:
    """Encoder, layers, pooling, split and corpus of a cell."""
    columns = cell.columns
    return (*(str(columns[name]) for name in ("encoder", "layers", "pooling")), cell.job.split, columns["corpus"])

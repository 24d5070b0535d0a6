"""How sure the figures of a comparison are: intervals, differences, and which method to use."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from flowbert.evaluation.comparable import Comparable
from flowbert.evaluation.grid import Cell
from flowbert.evaluation.results import Row
from flowbert.evaluation.scores import ScoreFolder
from flowbert.tasks.base import AnswersJob, Job, RetrievalJob, STSJob
from flowbert.tasks.bootstrap import Interval, Replicates, average, bootstrap, verdict
from flowbert.tasks.lexical import GOLD
from flowbert.tasks.lexical_bootstrap import bootstrap_lexical
from flowbert.tasks.ranking_bootstrap import bootstrap_ranking
from flowbert.tasks.retrieval import MRR_CUT
from flowbert.tasks.retrieval_bootstrap import bootstrap_retrieval

Group = tuple[str, ...]
"""Encoder, layers, pooling, split, corpus: what methods in one verdict share."""
_DECIDES = ("auc", f"mrr@{MRR_CUT}")  # the metrics that a verdict on answer ranking or retrieval goes by
_SPEARMAN = "spearman"


@dataclass(frozen=True)
class EditDistances:
    """Edit distances of the pairs of STS jobs, in one unit.

    Attributes:
        unit: ``words`` or ``characters``.
        by_job: Job -> distances of its pairs, shape ``(N,)``.
    """

    unit: str
    by_job: Mapping[Job, NDArray[np.float64]]


@dataclass(frozen=True, eq=False)
class Certainty:
    """Replicates of every cell.

    Attributes:
        by_job: STS job -> figures of each of its cells on the same resamples, named by setting.
        others: Job -> the same by any other metric: of answer ranking, of retrieval, with the edit distance.
        cells: The cells.
    """

    by_job: Mapping[Job, Replicates]
    others: Mapping[Job, Mapping[str, Replicates]]
    cells: tuple[Cell, ...]

    @classmethod
    def of(
        cls,
        cells: Sequence[Cell],
        scores: ScoreFolder,
        *,
        resamples: int,
        seed: int,
        threads: int = 1,
        distances: EditDistances | None = None,
    ) -> "Certainty":
        """Resample the pairs of each job once for all of its cells, whatever the encoder: every two can be compared."""
        by_job: dict[Job, Replicates] = {}
        others: dict[Job, Mapping[str, Replicates]] = {}
        for job in dict.fromkeys(cell.job for cell in cells):
            pairs = scores.pairs([cell for cell in cells if cell.job is job])
            if pairs is None:
                continue
            if isinstance(job, AnswersJob):
                others[job] = bootstrap_ranking(job.task, pairs, resamples=resamples, seed=seed)
            elif isinstance(job, RetrievalJob):
                others[job] = bootstrap_retrieval(pairs, resamples=resamples, seed=seed)
            elif isinstance(job, STSJob):
                by_job[job] = bootstrap(pairs, resamples=resamples, seed=seed, threads=threads)
                if distances is not None:
                    others[job] = bootstrap_lexical(
                        pairs, distances.by_job[job], distances.unit, resamples=resamples, seed=seed, threads=threads
                    )
        return cls(by_job, others, tuple(cells))

    def rows(self, rows: Sequence[Row]) -> list[Row]:
        """Rows with their intervals, where there are any."""
        found: dict[tuple[str, str, str, str], Replicates] = {}
        for job, replicates in self.by_job.items():
            found |= {(_SPEARMAN, job.name, job.split, name): replicates for name in replicates.methods}
        for job, by_metric in self.others.items():
            for metric, each in by_metric.items():
                found |= {(metric, job.name, job.split, name): each for name in each.methods}
        return [_with_interval(row, found.get((row.metric, row.task, row.split, _name(row)))) for row in rows]

    def averages(self, aggregation: str) -> dict[Group, Interval]:
        """Interval of the average over the tasks, by group and method (the last entry), for more than one task."""
        return {
            (*group, method): replicates.interval(method, aggregation)
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
        lines = [line for _, told in self._averaged(aggregation).values() for line in told]
        lines += [line for _, told in self._between(aggregation).values() for line in told]
        for group, metric, part in self._others():
            lacking = [method for method in part.methods if method not in part.usable(aggregation)]
            if lacking and metric in _DECIDES:
                lines.append(f"left out of the verdict on {part.task} ({', '.join(group)}): {', '.join(lacking)}")
        return list(dict.fromkeys(lines))

    def _averaged(self, aggregation: str) -> dict[Group, tuple[Replicates | None, list[str]]]:
        found = {}
        for group in self._group_names():
            parts = {job: self._part(job, each, group) for job, each in self.by_job.items() if job.split == group[3]}
            there = {job: part for job, part in parts.items() if part is not None}
            if there:
                found[group] = _average(there, aggregation, f"averages and verdicts ({', '.join(group)})")
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
        if members and GOLD in replicates.methods:
            members[GOLD] = [GOLD]
        return _pooled(replicates, members, self._seeds(members)) if members else None

    def _seeds(self, members: Mapping[str, Sequence[str]]) -> dict[str, int]:
        """How many seeds each method has where it has most: with fewer a mean is of something else."""
        counts: dict[tuple[str, Job, Group], int] = {}
        for cell in self.cells:
            key = (cell.method.shown, cell.job, group_of(cell))
            counts[key] = counts.get(key, 0) + 1
        return {name: max((n for (method, *_), n in counts.items() if method == name), default=1) for name in members}

    def _others(self) -> list[tuple[Group, str, Replicates]]:
        """Group, metric and replicates of every job that is not STS."""
        found = []
        for job, by_metric in self.others.items():
            for metric, replicates in by_metric.items():
                parts = ((group, self._part(job, replicates, group)) for group in self._group_names())
                found += [(group, metric, part) for group, part in parts if part is not None]
        return found

    def _comparisons(self, aggregation: str) -> list[tuple[Group, str, Replicates]]:
        """What is compared, each method with a figure: the average over the STS tasks, other jobs."""
        found = [(group, _SPEARMAN, replicates) for group, replicates in self.groups(aggregation).items()]
        found += [(group, metric, part.only(part.usable(aggregation))) for group, metric, part in self._others()]
        return [item for item in found if len(item[2].methods) > 1]

    def verdicts(self, aggregation: str) -> list[str]:
        """A line per group of two methods or more: which to use, or that it is noise; then a line between encoders.

        Groups are the average over the STS tasks, each answer ranking (by AUC) and each retrieval (by MRR).
        """
        found = [item for item in self._comparisons(aggregation) if item[1] in (_SPEARMAN, *_DECIDES)]
        names = [group for group, _, _ in found]
        varying = [len({name[place] for name in names}) > 1 for place in range(4)]
        lines = []
        for group, _, replicates in found:
            told = [part for part, differs in zip(group[:4], varying, strict=True) if differs]
            lines.append(_verdict(replicates, aggregation, [*told, f"corpus {group[4]}", replicates.task]))
        for title, replicates in self.between_encoders(aggregation).items():
            lines.append(_verdict(replicates, aggregation, ["between encoders", title, replicates.task]))
        return lines

    def differences(self, aggregation: str) -> dict[str, tuple[tuple[str, ...], list[list[Interval | None]]]]:
        """Title -> names, and row minus column on the same resamples: of any two methods, of any two encoders."""
        found = {
            f"{f'{aggregation}, ' * (metric == _SPEARMAN)}{replicates.task}: {', '.join(group)}": replicates
            for group, metric, replicates in self._comparisons(aggregation)
        }
        found |= {
            f"{aggregation}, {replicates.task}, between encoders: {title}": replicates
            for title, replicates in self.between_encoders(aggregation).items()
        }
        return {
            title: (
                replicates.methods,
                [[_difference(replicates, a, b, aggregation) for b in replicates.methods] for a in replicates.methods],
            )
            for title, replicates in found.items()
        }

    def between_encoders(self, aggregation: str = "wmean") -> dict[str, Replicates]:
        """One method on several encoders, all else equal, averaged over the STS tasks: by what they share."""
        found = {title: each for title, (each, _) in self._between(aggregation).items()}
        return {title: each for title, each in found.items() if each is not None and len(each.methods) > 1}

    def _between(self, aggregation: str) -> dict[str, tuple[Replicates | None, list[str]]]:
        shared: dict[tuple[str, ...], dict[Job, dict[str, list[str]]]] = {}
        for cell in self.cells:
            if cell.job in self.by_job:
                encoder, *rest = group_of(cell)
                jobs = shared.setdefault((cell.method.shown, *rest), {})
                jobs.setdefault(cell.job, {}).setdefault(encoder, []).append(cell.setting)
        found = {}
        for (method, layers, pooling, split, corpus), by_job in shared.items():
            if len({encoder for members in by_job.values() for encoder in members}) > 1:
                title = f"{method}, layers {layers}, pooling {pooling}, split {split}, corpus {corpus}"
                seeds = max(len(settings) for members in by_job.values() for settings in members.values())
                wanted = {encoder: seeds for members in by_job.values() for encoder in members}
                parts = {job: _pooled(self.by_job[job], members, wanted) for job, members in by_job.items()}
                found[title] = _average(parts, aggregation, f"the comparison of encoders ({title})")
        return found


def _verdict(replicates: Replicates, aggregation: str, label: Sequence[str]) -> str:
    found = verdict(replicates, aggregation, label=", ".join(label))
    return f"{found.text}. Use: {found.use}"


def _average(parts: Mapping[Job, Replicates], aggregation: str, what: str) -> tuple[Replicates | None, list[str]]:
    """Average over the jobs of the methods with a figure on each of them, and lines about what is left out."""
    figures: dict[str, dict[str, float]] = {method: {} for part in parts.values() for method in part.methods}
    for job, part in parts.items():
        for method in part.usable(aggregation):
            figures[method][job.name] = part.interval(method, aggregation).value
    found = Comparable.of(figures, [job.name for job in parts])
    kept = [part.only(found.rows) for job, part in parts.items() if job.name in found.columns]
    if not found.rows:
        return None, found.told(what)
    whole = kept[0] if len(kept) == 1 else average(kept, f"average of {len(kept)} tasks")
    lines, usable = found.told(what), whole.usable(aggregation)
    if len(usable) < len(found.rows):  # tiny tasks: on each resample some task has no figure
        lines.append(f"left out of {what}, no resample has all tasks: {', '.join(set(found.rows) - set(usable))}")
    return whole.only(usable) if usable else None, lines


def _pooled(replicates: Replicates, members: Mapping[str, Sequence[str]], seeds: Mapping[str, int]) -> Replicates:
    """Replicates under new names, each the mean of its settings; without a figure if some of its seeds are missing."""
    rows = [[replicates.methods.index(setting) for setting in settings] for settings in members.values()]
    points = np.stack([replicates.points[row].mean(axis=0) for row in rows])
    values = np.stack([replicates.values[row].mean(axis=0) for row in rows])
    points[[len(row) < seeds[name] for name, row in zip(members, rows, strict=True)]] = np.nan
    return Replicates(replicates.task, tuple(members), points, values, replicates.pairs, replicates.seed)


def _difference(replicates: Replicates, method: str, other: str, aggregation: str) -> Interval | None:
    return None if method == other else replicates.difference(method, other, aggregation)


def _name(row: Row) -> str:
    return row.setting or row.method


def _with_interval(row: Row, replicates: Replicates | None) -> Row:
    if replicates is None or not math.isfinite(row.value):
        return row
    interval = replicates.interval(_name(row), row.aggregation)
    return replace(row, low=interval.low, high=interval.high)


def group_of(cell: Cell) -> Group:
    """Encoder, layers, pooling, split and corpus of a cell."""
    columns = cell.columns
    return (*(str(columns[name]) for name in ("encoder", "layers", "pooling")), cell.job.split, columns["corpus"])

"""How runs went: the figures of every validation, from their metrics.csv, as curves, as a table, and as CSV."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from flowbert.errors import UserError, choices
from flowbert.io.metrics_file import read_metrics
from flowbert.io.run_folder import RunFolder
from flowbert.tasks.protocol import AGGREGATIONS


@dataclass(frozen=True)
class Point:
    """One method at one validation.

    Args:
        step: Training steps done.
        spearman: Of the development split, in [-1, 1].
        alignment: Lower is better; NaN where the task has no pair that counts as positive.
        uniformity: Lower is better.
    """

    step: int
    spearman: float
    alignment: float
    uniformity: float


@dataclass(frozen=True)
class Curve:
    """The validations of one method of one run, in order."""

    run: str
    method: str
    task: str
    points: tuple[Point, ...]

    @property
    def trained(self) -> bool:
        """Whether anything changes along the run; what does not is a baseline."""
        return len({_figures(point) for point in self.points}) > 1

    @property
    def identity(self) -> object:
        """What is the same in equal curves of several runs: a baseline's first validation may have another step."""
        return self if self.trained else (self.method, _figures(self.points[0]))


def read_curves(runs: Sequence[str | Path], task: str | None = None, aggregation: str = "all") -> list[Curve]:
    """Read the curves of all methods of some run folders, on one task; a baseline that several runs share, once.

    Args:
        runs: Folders of finished or running fits, or their names on the hub.
        task: Its name; default: the first of the first run.
        aggregation: Which Spearman of a task with subsets: ``all``, ``mean`` or ``wmean``.

    Raises:
        UserError: If there is no metrics.csv, no validation in it, no such task, or the aggregation is unknown.
    """
    if aggregation not in AGGREGATIONS:
        raise UserError(f"aggregation: received {aggregation!r}; {choices(AGGREGATIONS, aggregation)}")
    found = []
    for run in runs:
        path = RunFolder.find(run, ["metrics.csv"]).metrics
        if not path.is_file():
            raise UserError(
                f"{run}: no {path.name} in it; allowed: the run folder of a fit (an exported model has no curve)"
            )
        metrics = read_metrics(path)
        tasks = list(dict.fromkeys(name for _, name in _measured(metrics, aggregation)))
        if not tasks:
            raise UserError(f"{path}: no validation on a development split yet; allowed: a run with validations")
        task = task or tasks[0]
        if task not in tasks:
            raise UserError(f"task: received {task!r}; {choices(tasks, task)} (in {path})")
        found.append((str(run), metrics))
    return curves_of(found, task, aggregation)


def curves_of(
    runs: Iterable[tuple[str, Sequence[Mapping[str, str]]]], task: str | None = None, aggregation: str = "all"
) -> list[Curve]:
    """The curves in the rows of some runs' metrics.csv, as :func:`read_curves` gives them; none without figures.

    Args:
        runs: Name and rows of each.
        task: Its name; default: the first that there is.
        aggregation: Which Spearman.
    """
    curves: dict[object, Curve] = {}
    for run, metrics in runs:
        for method, name in _measured(metrics, aggregation):
            task = task or name
            if name == task:
                curve = Curve(run, method, name, _points(metrics, method, name, aggregation))
                curves.setdefault(curve.identity, curve)
    return list(curves.values())


def curves_to_markdown(curves: Sequence[Curve]) -> str:
    """One table of all curves; a baseline, the same at every validation, has one line."""
    lines = ["| run | method | step | Spearman x 100 | alignment | uniformity |", "|---|---|---:|---:|---:|---:|"]
    for curve in curves:
        for p in curve.points if curve.trained else curve.points[:1]:
            step = str(p.step) if curve.trained else ""
            figures = f"{100 * p.spearman:.2f} | {p.alignment:.3f} | {p.uniformity:.3f}"
            lines.append(f"| {Path(curve.run).name} | {curve.method} | {step} | {figures} |")
    return "\n".join(lines)


def short_names(paths: Sequence[str]) -> list[str]:
    """The last part of each path, or as much more of it as tells them apart.

    Example:
        >>> short_names(["runs/a/lr-0.1", "runs/b/lr-0.1", "runs/b/lr-0.2"])
        ['a/lr-0.1', 'b/lr-0.1', 'b/lr-0.2']
    """
    parts = [Path(path).parts for path in paths]
    distinct = len(set(parts))
    for depth in range(1, max(map(len, parts), default=1)):
        if len({each[-depth:] for each in parts}) == distinct:
            return ["/".join(each[-depth:]) for each in parts]
    return list(paths)


def curve_rows(curves: Sequence[Curve]) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
    """Names of columns, and a row per point."""
    names = ("run", "method", "task", *(field.name for field in fields(Point)))
    return names, [(curve.run, curve.method, curve.task, *astuple(p)) for curve in curves for p in curve.points]


def _measured(metrics: Sequence[Mapping[str, str]], aggregation: str) -> list[tuple[str, str]]:
    """Methods and tasks with a Spearman on the development split."""
    suffix = f"/dev/spearman_{aggregation}"
    # Logged names are METHOD/TASK/SPLIT/MEASURE.
    names = dict.fromkeys(name for row in metrics for name in row if name.endswith(suffix))
    found = [name.removesuffix(suffix).rsplit("/", 1) for name in names]
    return [(method, task) for method, task in found]


def _points(metrics: Sequence[Mapping[str, str]], method: str, task: str, aggregation: str) -> tuple[Point, ...]:
    spearman, alignment, uniformity = (
        f"{method}/{task}/dev/{name}" for name in (f"spearman_{aggregation}", "alignment", "uniformity")
    )
    return tuple(
        # Lightning logs the number of the last step, counted from 0.
        Point(int(row["step"]) + 1, *(float(row.get(name, math.nan)) for name in (spearman, alignment, uniformity)))
        for row in metrics
        if spearman in row
    )


def _figures(point: Point) -> str:
    """The figures without the step; as text, in which NaN equals itself."""
    return str((point.spearman, point.alignment, point.uniformity))

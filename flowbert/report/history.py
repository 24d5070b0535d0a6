"""How runs went: the figures of every validation, from their metrics.csv, as curves, as a table, and as CSV."""

import csv
import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from flowbert.errors import UserError, choices
from flowbert.io.run_folder import RunFolder
from flowbert.report.files import write_lines
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


def read_curves(runs: Sequence[str | Path], task: str | None = None, aggregation: str = "all") -> list[Curve]:
    """Read the curves of all methods of some run folders, on one task; a baseline that several runs share, once.

    Args:
        runs: Folders of finished or running fits.
        task: Its name; default: the first of the first run.
        aggregation: Which Spearman of a task with subsets: ``all``, ``mean`` or ``wmean``.

    Raises:
        UserError: If there is no metrics.csv, no validation in it, no such task, or the aggregation is unknown.
    """
    if aggregation not in AGGREGATIONS:
        raise UserError(f"aggregation: received {aggregation!r}; {choices(AGGREGATIONS, aggregation)}")
    curves: dict[object, Curve] = {}
    for run in runs:
        for curve in _read(Path(run), task, aggregation):
            task = curve.task
            # The step of a baseline's first validation differs between runs.
            curves.setdefault(curve if curve.trained else (curve.method, _figures(curve.points[0])), curve)
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


def write_curves(curves: Sequence[Curve], path: str | Path) -> Path:
    """Write one line per point as CSV. Returns the path."""
    names = ("run", "method", "task", *(field.name for field in fields(Point)))
    return write_lines(path, names, ((c.run, c.method, c.task, *astuple(p)) for c in curves for p in c.points))


def _read(run: Path, task: str | None, aggregation: str) -> list[Curve]:
    path = RunFolder(run).metrics
    if not path.is_file():
        problem = f"no {path.name} in it" if run.is_dir() else "no such folder"
        raise UserError(f"{run}: {problem}; allowed: the run folder of a fit (an exported model has no curve)")
    with path.open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    suffix = f"/dev/spearman_{aggregation}"
    # Logged names are METHOD/TASK/SPLIT/MEASURE.
    names = [name.removesuffix(suffix).rsplit("/", 1) for name in (lines[0] if lines else ()) if name.endswith(suffix)]
    tasks = list(dict.fromkeys(found for _, found in names))
    if not tasks:
        raise UserError(f"{path}: no validation on a development split yet; allowed: a run with validations")
    chosen = task or tasks[0]
    if chosen not in tasks:
        raise UserError(f"task: received {task!r}; {choices(tasks, chosen)} (in {path})")
    return [
        Curve(str(run), method, chosen, _points(lines, f"{method}/{chosen}/dev", aggregation))
        for method, found in names
        if found == chosen
    ]


def _points(lines: list[dict[str, str]], prefix: str, aggregation: str) -> tuple[Point, ...]:
    measures = (f"spearman_{aggregation}", "alignment", "uniformity")
    found = []
    for line in lines:
        values = [line[f"{prefix}/{measure}"] for measure in measures]
        if values[0]:
            # Lightning logs the number of the last step, counted from 0.
            found.append(Point(int(line["step"]) + 1, *(float(value) if value else math.nan for value in values)))
    return tuple(found)


def _figures(point: Point) -> str:
    """The figures without the step; as text, in which NaN equals itself."""
    return str((point.spearman, point.alignment, point.uniformity))

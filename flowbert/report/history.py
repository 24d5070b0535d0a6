"""How a run went: the figures of every validation, from its metrics.csv."""

import csv
import math
from dataclasses import dataclass
from pathlib import Path

from flowbert.errors import UserError, choices
from flowbert.tasks.protocol import AGGREGATIONS

METRICS = "metrics.csv"


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
        # As text: NaN, which no pair above the threshold leaves, equals itself there.
        return len({str((p.spearman, p.alignment, p.uniformity)) for p in self.points}) > 1


def read_curves(run: str | Path, task: str | None = None, aggregation: str = "all") -> list[Curve]:
    """Read the curves of all methods of a run folder, on one task.

    Args:
        run: Folder of a finished or running ``fit``.
        task: Its name; default: the first of the run.
        aggregation: Which Spearman of a task with subsets: ``all``, ``mean`` or ``wmean``.

    Raises:
        UserError: If there is no metrics.csv, no validation in it, no such task, or the aggregation is unknown.
    """
    if aggregation not in AGGREGATIONS:
        raise UserError(f"--aggregation: received {aggregation!r}; {choices(AGGREGATIONS, aggregation)}")
    path = Path(run) / METRICS
    if not path.is_file():
        raise UserError(f"{run}: no {METRICS} in it; allowed: the run folder of a fit")
    with path.open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    suffix = f"/dev/spearman_{aggregation}"
    # Logged names are METHOD/TASK/SPLIT/MEASURE.
    names = [name.removesuffix(suffix).rsplit("/", 1) for name in (lines[0] if lines else ()) if name.endswith(suffix)]
    tasks = list(dict.fromkeys(found for _, found in names))
    if not tasks:
        raise UserError(
            f"{path}: no validation on a development split yet; allowed: a run with trainer.val_check_interval"
        )
    if task is not None and task not in tasks:
        raise UserError(f"--task: received {task!r}; {choices(tasks, task)} (in {path})")
    chosen = task or tasks[0]
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

"""Methods x tasks, x 100, under one named aggregation: for the terminal and as Markdown."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from flowbert.errors import UserError
from flowbert.evaluation.protocol import AGGREGATIONS
from flowbert.evaluation.results import Row

_AVERAGE = "Avg"
_GEOMETRY = ("alignment", "uniformity")  # lower is better
_SETTING = ("encoder", "layers", "pooling", "corpus", "split")


@dataclass(frozen=True)
class Grid:
    """Figures x 100 as a table: ``cells[label][column]``, NaN where there is none, and what all rows share."""

    columns: tuple[str, ...]
    cells: dict[str, tuple[float, ...]]
    title: str
    shared: str


def grid(rows: Sequence[Row], aggregation: str = "wmean") -> Grid:
    """Arrange rows by method and task; several seeds of one method are averaged, which the label says.

    A method's label also names every setting (encoder, layers, pooling, corpus, split) in which the rows differ; what
    they share is said once. ``Avg``, the plain average over the tasks, is added for more than one task; alignment and
    uniformity are averages over the tasks.

    Raises:
        UserError: If ``aggregation`` is unknown or no row has it.
    """
    if aggregation not in AGGREGATIONS:
        raise UserError(f"aggregation is {aggregation!r}; allowed: {', '.join(AGGREGATIONS)}")
    chosen = [row for row in rows if row.aggregation == aggregation]
    if not chosen:
        raise UserError(f"no rows with the aggregation {aggregation!r} among {len(rows)}; nothing to show")
    varying = [name for name in _SETTING if len({getattr(row, name) for row in chosen if _says(row, name)}) > 1]
    tasks = tuple(dict.fromkeys(row.task for row in chosen))
    found: dict[str, dict[str, list[float]]] = {}
    geometry: dict[str, list[tuple[float, float]]] = {}
    for row in chosen:
        settings = [getattr(row, name) for name in varying if _says(row, name)]
        label = f"{row.method} ({', '.join(settings)})" if settings else row.method
        found.setdefault(label, {}).setdefault(row.task, []).append(100 * row.spearman)
        geometry.setdefault(label, []).append((row.alignment, row.uniformity))
    cells = {}
    for label, by_task in found.items():
        figures = [_mean(by_task.get(task, [math.nan])) for task in tasks]
        seeds = max(len(values) for values in by_task.values())
        name = f"{label}, mean of {seeds}" if seeds > 1 else label
        averages = [_mean(values) for values in zip(*geometry[label], strict=True)]
        cells[name] = (*figures, *([_mean(figures)] if len(tasks) > 1 else []), *averages)
    columns = (*tasks, *((_AVERAGE,) if len(tasks) > 1 else ()), *_GEOMETRY)
    shared = {name: next((getattr(r, name) for r in chosen if _says(r, name)), None) for name in _SETTING}
    said = ", ".join(f"{name} {value}" for name, value in shared.items() if value and name not in varying)
    title = f"Spearman x 100, aggregation: {aggregation}; alignment and uniformity: lower is better"
    return Grid(columns, cells, title, said)


def print_table(rows: Sequence[Row], aggregation: str = "wmean", console: Console | None = None) -> None:
    """Print the table; too wide for the terminal, the columns go on in further tables below.

    The best figure of each column is bold on a terminal. A file or pipe gets the full width in plain text.
    """
    console = console or Console()
    content = grid(rows, aggregation)
    if not console.is_terminal:
        console = Console(file=console.file, width=_full_width(console, content))
    best = _best(content)
    console.print(Text(content.title))
    start = 0
    while start < len(content.columns):
        stop = _fitting(console, content, start)
        console.print(_table(content, best, start, stop))
        start = stop
    if content.shared:
        console.print(Text(content.shared), soft_wrap=True)


def to_markdown(rows: Sequence[Row], aggregation: str = "wmean") -> str:
    """The table as Markdown, the title above it and the shared setting below."""
    content = grid(rows, aggregation)
    lines = [
        f"{content.title}",
        "",
        "| method | " + " | ".join(content.columns) + " |",
        "|---|" + "---:|" * len(content.columns),
    ]
    for label, figures in content.cells.items():
        escaped = label.replace("|", "\\|")
        lines.append(f"| {escaped} | " + " | ".join(_shown(figure) for figure in figures) + " |")
    return "\n".join([*lines, *(["", content.shared] if content.shared else []), ""])


def _says(row: Row, name: str) -> bool:
    # Raw embeddings are fitted on nothing: that is no difference between methods.
    return not (name == "corpus" and row.corpus == "none")


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _shown(figure: float) -> str:
    return "nan" if math.isnan(figure) else f"{figure:.2f}"


def _best(content: Grid) -> tuple[float, ...]:
    columns = zip(content.columns, zip(*content.cells.values(), strict=True), strict=True)
    return tuple(
        (min if name in _GEOMETRY else max)((figure for figure in column if not math.isnan(figure)), default=math.nan)
        for name, column in columns
    )


def _table(content: Grid, best: Sequence[float], start: int, stop: int) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("method", overflow="fold", min_width=8)
    for name in content.columns[start:stop]:
        table.add_column(name, justify="right", no_wrap=True)
    for label, figures in content.cells.items():
        several = len(content.cells) > 1
        shown = [
            Text(_shown(figures[i]), style="bold" if several and figures[i] == best[i] else "")
            for i in range(start, stop)
        ]
        table.add_row(Text(label), *shown)
    return table


def _fitting(console: Console, content: Grid, start: int) -> int:
    """Column after the last one that fits beside the method names; always at least one column."""
    stop = len(content.columns)
    while stop > start + 1 and _measured(console, content, start, stop).minimum > console.width:
        stop -= 1
    return stop


def _full_width(console: Console, content: Grid) -> int:
    return max(_measured(console, content, 0, len(content.columns)).maximum, len(content.title))


def _measured(console: Console, content: Grid, start: int, stop: int) -> Measurement:
    table = _table(content, [math.nan] * len(content.columns), start, stop)
    return Measurement.get(console, console.options.update(width=10_000), table)

"""Methods x tasks, x 100, under one named aggregation: for the terminal and as Markdown."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from flowbert.errors import UserError
from flowbert.evaluation.lexical import EDIT_DISTANCE
from flowbert.evaluation.protocol import AGGREGATIONS
from flowbert.evaluation.results import Row

_AVERAGE = "Avg"
_GEOMETRY = ("alignment", "uniformity")  # lower is better
_SETTING = ("encoder", "layers", "pooling", "corpus", "split")
_GROUP = ("encoder", "layers", "pooling", "split", "corpus")
_SPEARMAN = "spearman"


Interval = tuple[float, float]
Averages = Mapping[tuple[str, ...], Interval]
"""Interval of an average over tasks by encoder, layers, pooling, split, corpus, method."""


@dataclass(frozen=True)
class Cell:
    """A figure x 100, NaN if undefined; below it its 95% interval, or its standard deviation over seeds."""

    figure: float
    interval: Interval | None = None
    std: float | None = None
    missing: bool = False

    @property
    def shown(self) -> str:
        """The figure as text; empty if there is none."""
        return "" if self.missing else "nan" if math.isnan(self.figure) else f"{self.figure:.2f}"

    @property
    def note(self) -> str:
        """The interval or the standard deviation as text; empty if there is neither."""
        if self.std is not None:
            return f"\u00b1{self.std:.2f}"
        if self.interval is not None and not math.isnan(self.interval[0]):
            return f"[{self.interval[0]:.1f}, {self.interval[1]:.1f}]"
        return ""


@dataclass(frozen=True)
class Grid:
    """Figures x 100 as a table: ``cells[label][column]``, NaN where there is none, and what all rows share.

    Attributes:
        columns: Names of the columns.
        cells: Label of a row -> its cells.
        title: What the table shows.
        shared: The setting that all rows share, and what the marks mean.
        lower_is_better: Columns where that is so.
        unranked: Columns where neither end is better.
    """

    columns: tuple[str, ...]
    cells: dict[str, tuple[Cell, ...]]
    title: str
    shared: str
    lower_is_better: frozenset[str] = field(default=frozenset())
    unranked: frozenset[str] = field(default=frozenset())


def grid(rows: Sequence[Row], aggregation: str = "wmean", averages: Averages | None = None) -> Grid:
    """Arrange Spearman figures by method and task; several seeds of one method are averaged, which the label says.

    A method's label also names every setting (encoder, layers, pooling, corpus, split) in which the rows differ; what
    they share is said once. ``Avg``, the plain average over the tasks, is added for more than one task; alignment and
    uniformity are averages over the tasks.

    Args:
        rows: Results; those of other metrics are left out.
        aggregation: ``all``, ``mean`` or ``wmean``.
        averages: Intervals of the averages.

    Raises:
        UserError: If ``aggregation`` is unknown or no row has it.
    """
    if aggregation not in AGGREGATIONS:
        raise UserError(f"aggregation is {aggregation!r}; allowed: {', '.join(AGGREGATIONS)}")
    chosen = [row for row in rows if row.aggregation == aggregation and row.metric == _SPEARMAN]
    if not chosen:
        raise UserError(f"no rows with the aggregation {aggregation!r} among {len(rows)}; nothing to show")
    tasks = tuple(dict.fromkeys(row.task for row in chosen))
    arranged = _arranged(chosen, lambda row: row.task)
    cells = {}
    for label, by_task in arranged.by_label.items():
        figures = [_cell(by_task.get(task, [])) for task in tasks]
        average = [_average(by_task, tasks, averages or {})] if len(tasks) > 1 else []
        mine = [row for values in by_task.values() for row in values]
        geometry = [Cell(_mean([getattr(row, name) for row in mine])) for name in _GEOMETRY]
        cells[label] = (*figures, *average, *geometry)
    columns = (*tasks, *((_AVERAGE,) if len(tasks) > 1 else ()), *_GEOMETRY)
    title = f"Spearman x 100, aggregation: {aggregation}; alignment and uniformity: lower is better"
    return Grid(columns, cells, title, arranged.shared, frozenset(_GEOMETRY))


def other_grid(rows: Sequence[Row]) -> Grid | None:
    """Arrange the figures of all other metrics, a column for each task and metric; None if there are none."""
    chosen = [row for row in rows if row.metric != _SPEARMAN]
    if not chosen:
        return None
    several = len({row.task for row in chosen}) > 1
    arranged = _arranged(chosen, lambda row: f"{row.task} {row.metric}" if several else row.metric)
    columns = tuple(dict.fromkeys(column for by_column in arranged.by_label.values() for column in by_column))
    cells = {
        label: tuple(_cell(by_column.get(column, [])) for column in columns)
        for label, by_column in arranged.by_label.items()
    }
    tasks = ", ".join(dict.fromkeys(row.task for row in chosen))
    unranked = frozenset(column for column in columns if EDIT_DISTANCE in column)
    return Grid(columns, cells, f"Other figures x 100: {tasks}", arranged.shared, unranked=unranked)


@dataclass(frozen=True)
class _Arranged:
    by_label: dict[str, dict[str, list[Row]]]
    shared: str


def _arranged(chosen: Sequence[Row], column_of: Callable[[Row], str]) -> _Arranged:
    """Rows by label and column, and the text of what all of them share."""
    varying = [name for name in _SETTING if len({getattr(row, name) for row in chosen if _says(row, name)}) > 1]
    found: dict[str, dict[str, list[Row]]] = {}
    for row in chosen:
        settings = [getattr(row, name) for name in varying if _says(row, name)]
        label = f"{row.shown_method} ({', '.join(settings)})" if settings else row.shown_method
        found.setdefault(label, {}).setdefault(column_of(row), []).append(row)
    named = {}
    for label, by_column in found.items():
        seeds = max(len(values) for values in by_column.values())
        named[f"{label}, mean of {seeds}" if seeds > 1 else label] = by_column
    shared = {name: next((getattr(r, name) for r in chosen if _says(r, name)), None) for name in _SETTING}
    said = [f"{name} {value}" for name, value in shared.items() if value and name not in varying]
    said += ["* learned from labels"] if any(row.supervised for row in chosen) else []
    return _Arranged(named, ", ".join(said))


def _cell(rows: Sequence[Row]) -> Cell:
    """One figure, or the mean and standard deviation over seeds."""
    values = [100 * (row.spearman if row.metric == _SPEARMAN else row.value) for row in rows]
    if not rows:
        return Cell(math.nan, missing=True)
    if len(rows) > 1:
        return Cell(_mean(values), std=statistics.stdev(values))
    return Cell(values[0], (100 * rows[0].low, 100 * rows[0].high))


def _average(by_task: Mapping[str, list[Row]], tasks: Sequence[str], averages: Averages) -> Cell:
    values = [by_task.get(task, []) for task in tasks]
    figure = _mean([_cell(rows).figure for rows in values])
    seeds = {len(rows) for rows in values}
    if len(seeds) == 1 and max(seeds) > 1:
        by_seed = [_mean([100 * rows[number].spearman for rows in values]) for number in range(max(seeds))]
        return Cell(figure, std=statistics.stdev(by_seed))
    first = next(iter(by_task.values()))[0]
    found = averages.get((*(getattr(first, name) for name in _GROUP), first.shown_method))
    return Cell(figure, None if found is None else (100 * found[0], 100 * found[1]))


def print_table(
    rows: Sequence[Row], aggregation: str = "wmean", console: Console | None = None, averages: Averages | None = None
) -> None:
    """Print the Spearman figures; too wide for the terminal, the columns go on in further tables below.

    The best figure of each column is bold on a terminal. A file or pipe gets the full width in plain text. Below a
    figure stands its 95% interval, or the standard deviation over seeds.
    """
    print_grid(grid(rows, aggregation, averages), console)


def print_grid(content: Grid, console: Console | None = None) -> None:
    """Print any arrangement of figures; see :func:`print_table`."""
    console = console or Console()
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


def to_markdown(rows: Sequence[Row], aggregation: str = "wmean", averages: Averages | None = None) -> str:
    """The Spearman figures as Markdown, the title above the table and the shared setting below."""
    return grid_to_markdown(grid(rows, aggregation, averages))


def differences_to_markdown(title: str, methods: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    """Differences of methods as a square Markdown table: row minus column."""
    escaped = [name.replace("|", "\\|").replace("*", "\\*") for name in methods]
    lines = [title, "", "| row - column | " + " | ".join(escaped) + " |", "|---|" + "---:|" * len(escaped)]
    lines += [f"| {name} | " + " | ".join(row) + " |" for name, row in zip(escaped, cells, strict=True)]
    return "\n".join([*lines, ""])


def grid_to_markdown(content: Grid) -> str:
    """Any arrangement of figures as Markdown."""
    lines = [
        f"{content.title}",
        "",
        "| method | " + " | ".join(content.columns) + " |",
        "|---|" + "---:|" * len(content.columns),
    ]
    for label, cells in content.cells.items():
        escaped = label.replace("|", "\\|").replace("*", "\\*")
        shown = [f"{cell.shown} {cell.note}".strip() for cell in cells]
        lines.append(f"| {escaped} | " + " | ".join(shown) + " |")
    return "\n".join([*lines, *(["", content.shared.replace("*", "\\*")] if content.shared else []), ""])


def _says(row: Row, name: str) -> bool:
    # Raw embeddings are fitted on nothing, gold scores come from no encoder: that is no difference between methods.
    return getattr(row, name) not in ("none", "")


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _best(content: Grid) -> tuple[float, ...]:
    columns = zip(content.columns, zip(*content.cells.values(), strict=True), strict=True)
    return tuple(
        (min if name in content.lower_is_better else max)(
            (cell.figure for cell in column if not math.isnan(cell.figure) and name not in content.unranked),
            default=math.nan,
        )
        for name, column in columns
    )


def _table(content: Grid, best: Sequence[float], start: int, stop: int) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("method", overflow="fold", min_width=8)
    for name in content.columns[start:stop]:
        table.add_column(name, justify="right", no_wrap=True)
    for label, cells in content.cells.items():
        several = len(content.cells) > 1
        shown = [_text(cells[i], several and cells[i].figure == best[i]) for i in range(start, stop)]
        table.add_row(Text(label), *shown)
    return table


def _text(cell: Cell, bold: bool) -> Text:
    text = Text(cell.shown, style="bold" if bold else "")
    return text.append(f"\n{cell.note}", style="not bold dim") if cell.note else text


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

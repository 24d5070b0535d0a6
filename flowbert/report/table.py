"""Methods x tasks, x 100, under one named aggregation: for the terminal and as Markdown."""

import math
import statistics
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from flowbert.errors import UserError
from flowbert.evaluation.comparable import Comparable
from flowbert.evaluation.results import Row
from flowbert.tasks.lexical import EDIT_DISTANCE
from flowbert.tasks.protocol import AGGREGATIONS

_AVERAGE = "Avg"
_GEOMETRY = ("alignment", "uniformity")  # lower is better
_SETTING = ("encoder", "layers", "pooling", "corpus", "split")
_TOLD_APART = (*_SETTING, "revision", "dtype", "max_length", "code")  # what differs here is no seed of the same
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
    ranked: bool = True

    @property
    def shown(self) -> str:
        """The figure as text; empty if there is none."""
        return "" if self.missing else f"{self.figure:.2f}" if math.isfinite(self.figure) else "nan"

    @property
    def note(self) -> str:
        """The interval or the standard deviation as text; empty if there is neither."""
        if not math.isfinite(self.figure):
            return ""
        if self.std is not None and math.isfinite(self.std):
            return f"\u00b1{self.std:.2f}"
        if self.interval is not None and math.isfinite(self.interval[0]):
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
        group: Label -> what rows must share to be ranked together: the split, and the code that computed them.
        notes: Why there is no figure where there is none, and what is left out of averages, a line each.
    """

    columns: tuple[str, ...]
    cells: dict[str, tuple[Cell, ...]]
    title: str
    shared: str
    lower_is_better: frozenset[str] = field(default=frozenset())
    unranked: frozenset[str] = field(default=frozenset())
    group: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def grid(rows: Sequence[Row], aggregation: str = "wmean", averages: Averages | None = None) -> Grid:
    """Arrange Spearman figures by method and task; several seeds of one method are averaged, which the label says.

    A method's label also names every setting (encoder, layers, pooling, corpus, split) in which the rows differ; what
    they share is said once. ``Avg``, the plain average over the tasks, is added for more than one task; alignment and
    uniformity are averages over the tasks. An average is over the same tasks for all rows of a split: tasks where none
    has a figure are left out, and a row that lacks one on another task has no average; notes say so.

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
    cells = {
        label: [_cell(by_task.get(task, []), arranged.seeds[label]) for task in tasks]
        for label, by_task in arranged.by_label.items()
    }
    notes = arranged.notes()
    for group in dict.fromkeys(arranged.group.values()):
        mine = {label: by_task for label, by_task in arranged.by_label.items() if arranged.group[label] == group}
        of_split = f" (split {group[0]})" if len(set(arranged.group.values())) > 1 else ""
        if len(tasks) > 1:
            figures = {label: _figures(cells[label], tasks) for label in mine}
            found = Comparable.of(figures, _tasks_of(mine, tasks))
            for label, by_task in mine.items():
                kept = {task: by_task[task] for task in found.columns} if label in found.rows else {}
                cells[label].append(_average(kept, arranged.seeds[label], averages or {}))
            notes += found.told(f"{_AVERAGE}{of_split}")
        for name in _GEOMETRY:
            by_name = {
                label: {task: _geometry(rows, name, arranged.seeds[label]) for task, rows in by_task.items()}
                for label, by_task in mine.items()
            }
            found = Comparable.of(by_name, _tasks_of(mine, tasks))
            for label in mine:
                values = [by_name[label][task] for task in found.columns] if label in found.rows else []
                cells[label].append(Cell(_mean(values)))
            notes += found.told(f"{name}{of_split}") if len(tasks) > 1 else []
    columns = (*tasks, *((_AVERAGE,) if len(tasks) > 1 else ()), *_GEOMETRY)
    title = f"Spearman x 100, aggregation: {aggregation}; alignment and uniformity: lower is better"
    return Grid(
        columns,
        {label: tuple(mine) for label, mine in cells.items()},
        title,
        arranged.shared,
        frozenset(_GEOMETRY),
        group=arranged.group,
        notes=tuple(dict.fromkeys(notes)),
    )


def other_grid(rows: Sequence[Row]) -> Grid | None:
    """Arrange the figures of all other metrics, a column for each task and metric; None if there are none."""
    chosen = [row for row in rows if row.metric != _SPEARMAN]
    if not chosen:
        return None
    several = len({row.task for row in chosen}) > 1
    arranged = _arranged(chosen, lambda row: f"{row.task} {row.metric}" if several else row.metric)
    columns = tuple(dict.fromkeys(column for by_column in arranged.by_label.values() for column in by_column))
    cells = {
        label: tuple(_cell(by_column.get(column, []), arranged.seeds[label]) for column in columns)
        for label, by_column in arranged.by_label.items()
    }
    tasks = ", ".join(dict.fromkeys(row.task for row in chosen))
    unranked = frozenset(column for column in columns if EDIT_DISTANCE in column)
    title = f"Other figures x 100: {tasks}"
    notes = tuple(dict.fromkeys(arranged.notes()))
    return Grid(columns, cells, title, arranged.shared, unranked=unranked, group=arranged.group, notes=notes)


@dataclass(frozen=True)
class _Arranged:
    by_label: dict[str, dict[str, list[Row]]]
    shared: str

    @cached_property
    def group(self) -> dict[str, tuple[str, ...]]:
        """Label -> split and code of its rows: what can be ranked together."""
        firsts = {label: next(iter(by_column.values()))[0] for label, by_column in self.by_label.items()}
        return {label: (row.split, row.code) for label, row in firsts.items()}

    @cached_property
    def seeds(self) -> dict[str, frozenset[int | None]]:
        """Label -> the seeds of all of its figures."""
        return {
            label: frozenset(row.seed for rows in by_column.values() for row in rows)
            for label, by_column in self.by_label.items()
        }

    def notes(self) -> list[str]:
        """Why figures are NaN, and where figures of a seed are missing or come twice."""
        everything = [row for by_column in self.by_label.values() for rows in by_column.values() for row in rows]
        lines = [f"nan: {row.reason}" for row in everything if row.reason]
        for label, by_column in self.by_label.items():
            for column, rows in by_column.items():
                found = [row.seed for row in rows]
                if len(set(found)) < len(found):
                    lines.append(f"nan: {label} has several figures of one seed on {column}")
                elif set(found) < self.seeds[label]:
                    lines.append(f"not ranked: {label} has {len(found)} of {len(self.seeds[label])} seeds on {column}")
        return lines


def _arranged(chosen: Sequence[Row], column_of: Callable[[Row], str]) -> _Arranged:
    """Rows by label and column, and the text of what all of them share."""
    varying = [name for name in _TOLD_APART if len({getattr(row, name) for row in chosen if _says(row, name)}) > 1]
    found: dict[str, dict[str, list[Row]]] = {}
    for row in chosen:
        settings = [str(getattr(row, name)) for name in varying if _says(row, name)]
        label = f"{row.shown_method} ({', '.join(settings)})" if settings else row.shown_method
        found.setdefault(label, {}).setdefault(column_of(row), []).append(row)
    named = {}
    for label, by_column in found.items():
        seeds = len({row.seed for values in by_column.values() for row in values})
        named[f"{label}, mean of {seeds}" if seeds > 1 else label] = by_column
    shared = {name: next((getattr(r, name) for r in chosen if _says(r, name)), None) for name in _SETTING}
    said = [f"{name} {value}" for name, value in shared.items() if value and name not in varying]
    said += ["* learned from labels"] if any(row.supervised for row in chosen) else []
    return _Arranged(named, ", ".join(said))


Seeds = frozenset[int | None]


def _cell(rows: Sequence[Row], seeds: Seeds) -> Cell:
    """One figure, or the mean and standard deviation over seeds; not ranked if some of the method's are missing."""
    values = [100 * (row.spearman if row.metric == _SPEARMAN else row.value) for row in rows]
    if not rows:
        return Cell(math.nan, missing=True)
    found = {row.seed for row in rows}
    if len(found) < len(rows):
        return Cell(math.nan)
    if len(rows) > 1:
        return Cell(_mean(values), std=_std(values), ranked=found == seeds)
    return Cell(values[0], (100 * rows[0].low, 100 * rows[0].high), ranked=found == seeds)


def _figures(cells: Sequence[Cell], tasks: Sequence[str]) -> dict[str, float]:
    return {task: cell.figure for task, cell in zip(tasks, cells, strict=False) if cell.ranked}


def _geometry(rows: Sequence[Row], name: str, seeds: Seeds) -> float:
    """Mean over the seeds; none if one is missing or comes twice."""
    whole = len(rows) == len(seeds) and {row.seed for row in rows} == seeds
    return _mean([getattr(row, name) for row in rows]) if whole else math.nan


def _tasks_of(mine: Mapping[str, Mapping[str, list[Row]]], tasks: Sequence[str]) -> list[str]:
    """Tasks that some row of a group is on."""
    return [task for task in tasks if any(task in by_task for by_task in mine.values())]


def _average(by_task: Mapping[str, list[Row]], seeds: Seeds, averages: Averages) -> Cell:
    """Average over tasks, each with all seeds; none without a task."""
    if not by_task:
        return Cell(math.nan)
    values = [{row.seed: 100 * row.spearman for row in rows} for rows in by_task.values()]
    by_seed = [_mean([mine[seed] for mine in values]) for seed in seeds]
    figure = _mean(by_seed)
    if len(by_seed) > 1:
        return Cell(figure, std=_std(by_seed))
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
    for line in (*([content.shared] if content.shared else []), *content.notes):
        console.print(Text(line), soft_wrap=True)


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
    below = [*([content.shared] if content.shared else []), *content.notes]
    return "\n".join([*lines, *(text for line in below for text in ("", line.replace("*", "\\*"))), ""])


def _says(row: Row, name: str) -> bool:
    # Raw embeddings are fitted on nothing, gold scores come from no encoder: that is no difference between methods.
    return getattr(row, name) not in ("none", "", None)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan


def _std(values: Sequence[float]) -> float:
    return statistics.stdev(values) if all(map(math.isfinite, values)) else math.nan


def _best(content: Grid) -> frozenset[tuple[str, int]]:
    """Label and place of each best figure of a column among rows that can be ranked together; ties are all best."""
    found: set[tuple[str, int]] = set()
    for group in {content.group.get(label, ()) for label in content.cells}:
        mine = {label: cells for label, cells in content.cells.items() if content.group.get(label, ()) == group}
        for place, name in enumerate(content.columns):
            column = {label: cells[place] for label, cells in mine.items() if cells[place].ranked}
            figures = {label: cell.figure for label, cell in column.items() if math.isfinite(cell.figure)}
            if len(figures) > 1 and name not in content.unranked:
                best = (min if name in content.lower_is_better else max)(figures.values())
                # What reads the same is the same.
                found |= {(label, place) for label, value in figures.items() if f"{value:.2f}" == f"{best:.2f}"}
    return frozenset(found)


def _table(content: Grid, best: Collection[tuple[str, int]], start: int, stop: int) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("method", overflow="fold", min_width=8)
    for name in content.columns[start:stop]:
        table.add_column(name, justify="right", no_wrap=True)
    for label, cells in content.cells.items():
        shown = [_text(cells[i], (label, i) in best) for i in range(start, stop)]
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
    table = _table(content, (), start, stop)
    return Measurement.get(console, console.options.update(width=10_000), table)

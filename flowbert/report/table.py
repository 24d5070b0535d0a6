"""Figures x 100 of methods by task or metric, arranged as a table; :mod:`flowbert.report.render` shows it."""

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter

from flowbert.data.sts import SAMPLE
from flowbert.encoders.loading import SAMPLE_PATH
from flowbert.errors import UserError, choices
from flowbert.evaluation.comparable import Comparable
from flowbert.evaluation.comparison import AGGREGATION
from flowbert.evaluation.results import Row
from flowbert.tasks.lexical import EDIT_DISTANCE
from flowbert.tasks.protocol import AGGREGATIONS

_AVERAGE = "Avg"
GEOMETRY = ("alignment", "uniformity")  # lower is better
_SETTING = ("encoder", "layers", "pooling", "corpus", "split")
_TOLD_APART = (*_SETTING, "revision", "dtype", "max_length", "code")  # what differs here is no seed of the same
_GROUP = ("encoder", "layers", "pooling", "split", "corpus")
_SPEARMAN = "spearman"
_BY_VERDICT = (AGGREGATION, *(name for name in AGGREGATIONS if name != AGGREGATION))

Averages = Mapping[tuple[str, ...], tuple[float, float]]
"""Interval of an average over tasks by encoder, layers, pooling, split, corpus, method."""


@dataclass(frozen=True)
class Cell:
    """One figure of a table.

    Attributes:
        figure: The figure x 100; NaN if it does not exist.
        low: Lower end of its 95% confidence interval; NaN without one.
        high: Upper end.
        deviation: Its standard deviation over seeds; NaN for one seed.
        ranked: Whether it can be the best; not without all of the method's seeds.
        measured: Whether there is anything; nothing is shown otherwise.
    """

    figure: float
    low: float = math.nan
    high: float = math.nan
    deviation: float = math.nan
    ranked: bool = True
    measured: bool = True

    @property
    def text(self) -> str:
        """The figure with two digits."""
        return (f"{self.figure:.2f}" if math.isfinite(self.figure) else "nan") if self.measured else ""

    @property
    def note(self) -> str:
        """The interval, or the standard deviation over seeds."""
        if math.isfinite(self.deviation):
            return f"\u00b1{self.deviation:.2f}"
        return f"[{self.low:.1f}, {self.high:.1f}]" if math.isfinite(self.low) else ""


@dataclass(frozen=True)
class FigureTable:
    """Methods x columns.

    Attributes:
        title: What the table shows.
        columns: Names of the columns.
        cells: Label of a row -> its cells.
        group: Label -> what rows must share to be ranked together: the split, and the code that computed them.
        notes: The setting that all rows share, why there is no figure where there is none, and what is left out of
            averages, a line each.
    """

    title: str
    columns: tuple[str, ...]
    cells: Mapping[str, Sequence[Cell]]
    group: Mapping[str, tuple[str, ...]]
    notes: Sequence[str]

    @cached_property
    def best(self) -> frozenset[tuple[str, int]]:
        """Label and column number of the best figures among rows that can be ranked together; ties are all best."""
        found: set[tuple[str, int]] = set()
        for group in set(self.group.values()):
            for number, name in enumerate(self.columns):
                column = {label: cells[number] for label, cells in self.cells.items() if self.group[label] == group}
                ranked = {k: c for k, c in column.items() if c.ranked and math.isfinite(c.figure)}
                if len(ranked) > 1 and EDIT_DISTANCE not in name:  # of which neither end is better
                    best = (min if name in GEOMETRY else max)(ranked.values(), key=attrgetter("figure"))
                    found |= {(label, number) for label, cell in ranked.items() if cell.text == best.text}
        return frozenset(found)


def spearman_table(rows: Sequence[Row], aggregation: str = "wmean", averages: Averages | None = None) -> FigureTable:
    """Arrange Spearman figures by method and task; several seeds of one method are averaged, which the label says.

    A method's label also names every setting (encoder, layers, pooling, corpus, split) in which the rows differ; what
    they share is said once. ``Avg``, the plain average over the tasks, is added for more than one task; alignment and
    uniformity, where they were measured, are averages over the tasks. An average is over the same tasks for all rows of
    a split: tasks where none has a figure are left out, and a row that lacks one on another task has no average; notes
    say so.

    Args:
        rows: Results; those of other metrics are left out.
        aggregation: ``all``, ``mean`` or ``wmean``.
        averages: Intervals of the averages.

    Raises:
        UserError: If ``aggregation`` is unknown or no row has it.
    """
    if aggregation not in AGGREGATIONS:
        raise UserError(f"aggregation: received {aggregation!r}; {choices(AGGREGATIONS, aggregation)}")
    chosen = [row for row in rows if row.aggregation == aggregation and row.metric == _SPEARMAN]
    if not chosen:
        raise UserError(f"no rows with the aggregation {aggregation!r} among {len(rows)}; nothing to show")
    tasks = tuple(dict.fromkeys(row.task for row in chosen))
    measured = any(math.isfinite(getattr(row, name)) for row in chosen for name in GEOMETRY)
    geometry = GEOMETRY if measured else ()
    averaged = (_AVERAGE, *geometry) if len(tasks) > 1 else geometry
    lines = _lines(chosen, attrgetter("task"))
    notes = _notes(chosen, lines)
    cells = {line.label: [line.cell(task) for task in tasks] for line in lines}
    groups = list(dict.fromkeys(line.group for line in lines))
    for group in groups:
        mine = [line for line in lines if line.group == group]
        for name in averaged:
            found, figures = _averages(mine, name, tasks, averages or {})
            for label, cell in figures.items():
                cells[label].append(cell)
            what = f"{name} (split {group[0]})" if len(groups) > 1 else name
            notes += [note for note in found.told(what) if len(tasks) > 1 and note not in notes]
    title = f"Spearman x 100, aggregation: {aggregation}"
    title += "; alignment and uniformity: lower is better" if measured else ""
    return FigureTable(title, (*tasks, *averaged), cells, {line.label: line.group for line in lines}, notes)


def other_table(rows: Sequence[Row]) -> FigureTable | None:
    """Arrange the figures of all other metrics, a column for each task and metric; None if there are none."""
    chosen = [row for row in rows if row.metric != _SPEARMAN]
    tasks = list(dict.fromkeys(row.task for row in chosen))
    if not chosen:
        return None
    lines = _lines(chosen, lambda row: f"{row.task} {row.metric}" if len(tasks) > 1 else row.metric)
    columns = tuple(dict.fromkeys(column for line in lines for column in line.rows))
    cells = {line.label: [line.cell(column) for column in columns] for line in lines}
    title, group = f"Other figures x 100: {', '.join(tasks)}", {line.label: line.group for line in lines}
    return FigureTable(title, columns, cells, group, _notes(chosen, lines))


def figure_tables(
    rows: Sequence[Row], averages: Mapping[str, Averages], aggregations: Sequence[str] = _BY_VERDICT
) -> list[FigureTable]:
    """The tables of some rows: Spearman by aggregation, first the one that verdicts go by, then other metrics.

    Args:
        rows: Results.
        averages: Aggregation -> intervals of the averages.
        aggregations: Which ones, in this order, of those that there are.
    """
    there = {row.aggregation for row in rows if row.metric == _SPEARMAN}
    found = [spearman_table(rows, name, averages.get(name)) for name in aggregations if name in there]
    others = other_table(rows)
    return found if others is None else [*found, others]


@dataclass(frozen=True)
class _Line:
    """A method under one setting: its rows by column, one per seed."""

    label: str
    rows: Mapping[str, Sequence[Row]]

    @property
    def group(self) -> tuple[str, str]:
        first = next(iter(self.rows.values()))[0]
        return first.split, first.code

    @cached_property
    def seeds(self) -> set[int | None]:
        return {row.seed for rows in self.rows.values() for row in rows}

    def by_seed(self, column: str, value: Callable[[Row], float]) -> dict[int | None, float]:
        """The figure of each seed; none if one comes twice."""
        rows = self.rows.get(column, ())
        found = {row.seed: value(row) for row in rows}
        return found if len(found) == len(rows) else {}

    def mean(self, column: str, value: Callable[[Row], float]) -> float:
        """Mean over the seeds; NaN if one is missing or comes twice."""
        found = self.by_seed(column, value)
        return _mean(found.values()) if found.keys() == self.seeds else math.nan

    def cell(self, column: str) -> Cell:
        """The figure of a column."""
        if column not in self.rows:
            return Cell(math.nan, measured=False)
        found, first = self.by_seed(column, _score), self.rows[column][0]
        return _cell([*found.values()], (first.low, first.high), ranked=found.keys() == self.seeds)

    def average(self, columns: Sequence[str], averages: Averages) -> Cell:
        """Average over columns that each have all seeds."""
        if not columns:
            return Cell(math.nan)
        found = [self.by_seed(column, _score) for column in columns]
        first = self.rows[columns[0]][0]
        key = (*(getattr(first, name) for name in _GROUP), first.shown_method)
        return _cell([_mean(values[seed] for values in found) for seed in self.seeds], averages.get(key))


def _averages(
    lines: Sequence[_Line], name: str, tasks: Sequence[str], averages: Averages
) -> tuple[Comparable, dict[str, Cell]]:
    """What can be compared, and each line's average over the same tasks; NaN for a line that lacks one of them."""
    value = attrgetter(name) if name in GEOMETRY else _score
    there = [task for task in tasks if any(task in line.rows for line in lines)]
    found = Comparable.of({line.label: {task: line.mean(task, value) for task in there} for line in lines}, there)
    cells = {}
    for line in lines:
        whole = found.columns if line.label in found.rows else ()
        geometry = Cell(_mean(line.mean(task, value) for task in whole))
        cells[line.label] = geometry if name in GEOMETRY else line.average(whole, averages)
    return found, cells


def _lines(chosen: Sequence[Row], column_of: Callable[[Row], str]) -> list[_Line]:
    found: dict[str, dict[str, list[Row]]] = {}
    varying = _varying(chosen)
    for row in chosen:
        settings = [str(getattr(row, name)) for name in varying if _says(row, name)]
        label = f"{row.shown_method} ({', '.join(settings)})" if settings else row.shown_method
        found.setdefault(label, {}).setdefault(column_of(row), []).append(row)
    lines = [_Line(label, rows) for label, rows in found.items()]
    return [_Line(f"{x.label}, mean of {len(x.seeds)}", x.rows) if len(x.seeds) > 1 else x for x in lines]


def _varying(chosen: Sequence[Row]) -> list[str]:
    return [name for name in _TOLD_APART if len({getattr(row, name) for row in chosen if _says(row, name)}) > 1]


def _says(row: Row, name: str) -> bool:
    # Raw embeddings are fitted on nothing, gold scores come from no encoder: that is no difference between methods.
    return getattr(row, name) not in ("none", "", None)


def _notes(chosen: Sequence[Row], lines: Sequence[_Line]) -> list[str]:
    """What all rows share; why figures are NaN, and where figures of a seed are missing or come twice."""
    varying = _varying(chosen)
    shared = {name: next((getattr(row, name) for row in chosen if _says(row, name)), None) for name in _SETTING}
    setting = [f"{name} {value}" for name, value in shared.items() if value and name not in varying]
    setting += ["* learned from labels"] if any(row.supervised for row in chosen) else []
    notes = [", ".join(setting)] if setting else []
    if any(row.task == SAMPLE and row.encoder != SAMPLE_PATH for row in chosen):
        notes.append(f"{SAMPLE} is generated text: its figures say nothing of real text")
    notes += [f"nan: {row.reason}" for line in lines for rows in line.rows.values() for row in rows if row.reason]
    for line in lines:
        for column, rows in line.rows.items():
            seeds = {row.seed for row in rows}
            if len(seeds) < len(rows):
                notes.append(f"nan: {line.label} has several figures of one seed on {column}")
            elif seeds < line.seeds:
                notes.append(f"not ranked: {line.label} has {len(rows)} of {len(line.seeds)} seeds on {column}")
    return list(dict.fromkeys(notes))


def _score(row: Row) -> float:
    return 100 * row.value


def _cell(values: Sequence[float], interval: tuple[float, float] | None, *, ranked: bool = True) -> Cell:
    """A figure, or the mean and standard deviation over seeds."""
    figure = _mean(values)
    if not math.isfinite(figure):
        return Cell(figure, ranked=ranked)
    if len(values) > 1:
        return Cell(figure, deviation=statistics.stdev(values), ranked=ranked)
    low, high = interval or (math.nan, math.nan)
    return Cell(figure, 100 * low, 100 * high, ranked=ranked)


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found) if found else math.nan

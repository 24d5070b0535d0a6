"""The table of figures as pictures: intervals by task, and the plane of alignment and uniformity."""

import math
import re
from collections.abc import Sequence

from flowbert.report.panel import Panel
from flowbert.report.panels.training import PLANE
from flowbert.report.style import Figure, colours_of
from flowbert.report.table import GEOMETRY, FigureTable

_MARKERS = "os^DvPX*"
_MOST = 24  # rows of a table; of more nobody can tell the dots apart


def intervals_panel(table: FigureTable) -> Panel | None:
    """Every figure of a table with its interval, task by task; None without figures, or of too many rows."""
    rows = [
        (column, label, cell.figure, cell.low, cell.high, cell.deviation)
        for number, column in enumerate(table.columns)
        for label, cells in table.cells.items()
        if column not in GEOMETRY and math.isfinite((cell := cells[number]).figure)
    ]
    if not rows or len(table.cells) > _MOST:
        return None
    columns = list(dict.fromkeys(row[0] for row in rows))
    labels = list(dict.fromkeys(row[1] for row in rows))

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for number, (label, (colour, marker)) in enumerate(_looks(labels).items()):
            mine = [row for row in rows if row[1] == label]
            heights = [columns.index(row[0]) + 0.7 * ((number + 0.5) / len(labels) - 0.5) for row in mine]
            figures = [row[2] for row in mine]
            axes.plot(figures, heights, marker, color=colour, label=label, markersize=4)
            for row, height in zip(mine, heights, strict=True):
                low, high = (row[3], row[4]) if math.isfinite(row[3]) else (row[2] - row[5], row[2] + row[5])
                if math.isfinite(low):
                    axes.plot((low, high), (height, height), color=colour, linewidth=1.5)
        axes.set_yticks(range(len(columns)), columns)
        axes.set(xlabel="x 100", ylim=(len(columns) - 0.5, -0.5))
        axes.tick_params(axis="y", length=0)
        axes.grid(visible=False, axis="y")
        figure.legend(loc="outside lower center")

    return Panel(
        "figures",
        "Figures with their intervals",
        "A dot is a figure, its line the 95% confidence interval over pairs, or one standard deviation over seeds.",
        ("task", "method", "figure", "low", "high", "deviation"),
        rows,
        draw,
        (7, len(columns) * max(0.35, 0.16 * len(labels)) + 0.9 + 0.22 * len(labels)),
    )


def plane_panel(table: FigureTable) -> Panel | None:
    """Alignment against uniformity, a point per row of the table; None where no row has both, or of too many."""
    places = [table.columns.index(name) if name in table.columns else -1 for name in GEOMETRY]
    rows = [
        (label, cells[places[0]].figure, cells[places[1]].figure)
        for label, cells in table.cells.items()
        if -1 not in places and all(math.isfinite(cells[place].figure) for place in places)
    ]
    if not rows or len(table.cells) > _MOST:
        return None

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        axes.set(xlabel="uniformity (lower is better)", ylabel="alignment (lower is better)")
        looks = _looks([row[0] for row in rows])
        for label, alignment, uniformity in rows:
            colour, marker = looks[label]
            axes.plot(uniformity, alignment, marker, color=colour, label=label, markersize=7)
        axes.margins(0.15)
        figure.legend(loc="outside lower center")

    return Panel(
        "plane", "Alignment and uniformity", PLANE, ("method", *GEOMETRY), rows, draw, (6, 4 + 0.22 * len(rows))
    )


def _looks(labels: Sequence[str]) -> dict[str, tuple[str, str]]:
    """A colour for each method in the labels, a marker for each setting that they go on with."""
    parted = {label: re.sub(", mean of \\d+$", "", label).partition(" (")[::2] for label in labels}
    colours = colours_of(dict.fromkeys(method.rstrip("*") for method, _ in parted.values()))
    settings = list(dict.fromkeys(setting for _, setting in parted.values()))
    return {
        label: (colours[method.rstrip("*")], _MARKERS[settings.index(setting) % len(_MARKERS)])
        for label, (method, setting) in parted.items()
    }

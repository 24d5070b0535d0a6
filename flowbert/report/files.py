"""The tables beside results.json: Markdown for people, CSV for spreadsheets."""

import csv
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flowbert.evaluation.results import COLUMNS, Row
from flowbert.io.atomic import written_atomically
from flowbert.report.table import Averages, grid_to_markdown, other_grid, to_markdown
from flowbert.tasks.protocol import AGGREGATIONS

_LEFT_OUT = ("subsets",)


def write_csv(path: str | Path, rows: Sequence[Row]) -> Path:
    """Write one line per figure with every column of a row but the figures by subset. Returns the path."""
    names = [name for name in COLUMNS if name not in _LEFT_OUT]
    with written_atomically(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        writer.writerows([_plain(getattr(row, name)) for name in names] for row in rows)
    return Path(path)


def write_markdown(
    path: str | Path,
    rows: Sequence[Row],
    averages: Mapping[str, Averages] | None = None,
    sections: Mapping[str, Sequence[str]] | None = None,
    differences: Sequence[str] = (),
) -> Path:
    """Write the tables of all three aggregations, the other figures, and further sections. Returns the path.

    Args:
        path: The file.
        rows: Results.
        averages: Aggregation -> intervals of the averages.
        sections: Title -> lines.
        differences: Further tables, from :func:`flowbert.report.table.differences_to_markdown`.
    """
    parts = []
    if any(row.metric == "spearman" for row in rows):
        parts += [to_markdown(rows, name, (averages or {}).get(name)) for name in reversed(AGGREGATIONS)]
    others = other_grid(rows)
    parts += [] if others is None else [grid_to_markdown(others)]
    for title, lines in (sections or {}).items():
        parts.append("\n".join([f"## {title}", "", *(f"- {line}" for line in lines), ""]))
    parts += differences
    with written_atomically(path) as temporary:
        temporary.write_text("\n".join(parts), encoding="utf-8")
    return Path(path)


def _plain(value: Any) -> Any:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return " ".join(map(str, value)) if isinstance(value, tuple) else value

"""The files beside results.json: Markdown for people, CSV for spreadsheets."""

import csv
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from flowbert.evaluation.results import COLUMNS, Row
from flowbert.io.atomic import written_atomically


def write_csv(path: str | Path, rows: Sequence[Row]) -> Path:
    """Write one line per figure with every column of a row but the figures by subset. Returns the path."""
    names = [name for name in COLUMNS if name != "subsets"]
    return write_lines(path, names, ([_plain(getattr(row, name)) for name in names] for row in rows))


def write_lines(path: str | Path, names: Iterable[str], lines: Iterable[Iterable[Any]]) -> Path:
    """Write names of columns and lines of values as CSV. Returns the path."""
    with written_atomically(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        writer.writerows(lines)
    return Path(path)


def write_text(path: str | Path, text: str) -> Path:
    """Write a text. Returns the path."""
    with written_atomically(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return Path(path)


def _plain(value: Any) -> Any:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return " ".join(map(str, value)) if isinstance(value, tuple) else value

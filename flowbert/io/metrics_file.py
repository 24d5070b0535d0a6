"""Rows of a metrics.csv as they were logged, and their digest."""

import csv
from collections.abc import Sequence
from pathlib import Path

from flowbert.io.digest import digest_json


def read_metrics(path: str | Path, rows: int | None = None) -> list[dict[str, str]]:
    """Rows of a ``metrics.csv``: column -> text, empty cells left out.

    Args:
        path: The file; without it there are none.
        rows: Read only the first ones.
    """
    if not Path(path).is_file():
        return []
    with Path(path).open(newline="", encoding="utf-8") as file:
        found = [{name: value for name, value in row.items() if value} for row in csv.DictReader(file)]
    return found[:rows]


def digest_rows(rows: Sequence[dict[str, str]], before: str = "") -> str:
    """Digest of rows, behind those with the digest ``before``; empty cells play no role."""
    for row in rows:
        before = digest_json([before, {name: value for name, value in row.items() if value}])
    return before

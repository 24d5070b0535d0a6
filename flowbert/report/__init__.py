"""Tables for people: terminal, Markdown, CSV."""

from flowbert.report.files import write_csv, write_markdown
from flowbert.report.table import (
    differences_to_markdown,
    grid,
    grid_to_markdown,
    other_grid,
    print_grid,
    print_table,
    to_markdown,
)

__all__ = [
    "differences_to_markdown",
    "grid",
    "grid_to_markdown",
    "other_grid",
    "print_grid",
    "print_table",
    "to_markdown",
    "write_csv",
    "write_markdown",
]

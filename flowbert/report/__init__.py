"""Results for people: terminal, Markdown, CSV."""

from flowbert.report.comparison import comparison_to_markdown, print_comparison
from flowbert.report.files import write_csv, write_markdown
from flowbert.report.render import print_table, table_to_markdown
from flowbert.report.table import other_table, spearman_table

__all__ = [
    "comparison_to_markdown",
    "other_table",
    "print_comparison",
    "print_table",
    "spearman_table",
    "table_to_markdown",
    "write_csv",
    "write_markdown",
]

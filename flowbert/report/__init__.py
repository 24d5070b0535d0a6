"""What a run shows: tables for the terminal and for documents."""

from flowbert.report.table import print_table, to_markdown

__all__ = ["print_table", "to_markdown"]

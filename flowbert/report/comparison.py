"""A comparison for people: its tables, verdicts and choices, on the terminal and as Markdown."""

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from flowbert.evaluation.comparison import AGGREGATION, Comparison
from flowbert.report.render import differences_to_markdown, print_table, table_to_markdown
from flowbert.report.table import FigureTable, figure_tables
from flowbert.tasks.protocol import AGGREGATIONS


def print_comparison(comparison: Comparison, console: Console | None = None) -> None:
    """Print the Spearman figures, those of other metrics, and what follows from them."""
    console = console or Console()
    for table in _tables(comparison, (AGGREGATION,)):
        print_table(table, console)
    for lines in comparison.sections().values():
        for line in lines:
            console.print(Text(line), soft_wrap=True)


def comparison_to_markdown(comparison: Comparison) -> str:
    """All aggregations, what follows from the figures, and the difference of any two methods."""
    found = [table_to_markdown(table) for table in _tables(comparison, AGGREGATIONS[::-1])]
    for title, lines in comparison.sections().items():
        found.append("\n".join([f"## {title}", "", *(f"- {line}" for line in lines), ""]))
    for title, (methods, intervals) in comparison.intervals.differences(AGGREGATION).items():
        cells = [["" if each is None else each.text() for each in row] for row in intervals]
        found.append(
            differences_to_markdown(f"Differences x 100 with 95% confidence intervals, {title}", methods, cells)
        )
    return "\n".join(found)


def _tables(comparison: Comparison, aggregations: Sequence[str]) -> list[FigureTable]:
    return figure_tables(comparison.rows, {name: comparison.averages(name) for name in aggregations}, aggregations)

"""A table of figures for the terminal, and as Markdown."""

from collections.abc import Mapping, Sequence

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from flowbert.report.table import Cell, FigureTable


def print_table(table: FigureTable, console: Console | None = None) -> None:
    """Print a table; too wide for the terminal, the columns go on in further tables below.

    The best figure of each column is bold on a terminal. A file or pipe gets the full width in plain text. Below a
    figure stands its 95% confidence interval, or the standard deviation over seeds.
    """
    console = console or Console()
    columns = len(table.columns)
    if not console.is_terminal:
        width = max(_measure(console, table, 0, columns).maximum, len(table.title))
        console = Console(file=console.file, width=width)
    console.print(Text(table.title))
    start = 0
    while start < columns:
        stop = columns
        while stop > start + 1 and _measure(console, table, start, stop).minimum > console.width:
            stop -= 1
        console.print(_columns(table, start, stop))
        start = stop
    for line in table.notes:
        console.print(Text(line), soft_wrap=True)


def text_of(table: Table) -> str:
    """Any other table as plain text, at most 120 letters wide."""
    console = Console(width=120)
    with console.capture() as shown:
        console.print(table)
    return shown.get().rstrip()


def table_to_markdown(table: FigureTable) -> str:
    """A table as Markdown, the title above and the notes below."""
    cells = {label: [f"{cell.text} {cell.note}".strip() for cell in row] for label, row in table.cells.items()}
    below = [text for note in table.notes for text in ("", note.replace("*", "\\*"))]
    return "\n".join([table.title, "", *_markdown("method", table.columns, cells), *below, ""])


def differences_to_markdown(title: str, methods: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    """Differences of methods as a square Markdown table: row minus column."""
    lines = _markdown("row - column", list(map(_escaped, methods)), dict(zip(methods, cells, strict=True)))
    return "\n".join([title, "", *lines, ""])


def _markdown(corner: str, columns: Sequence[str], cells: Mapping[str, Sequence[str]]) -> list[str]:
    lines = [f"| {corner} | {' | '.join(columns)} |", "|---|" + "---:|" * len(columns)]
    return lines + [f"| {_escaped(label)} | {' | '.join(row)} |" for label, row in cells.items()]


def _escaped(label: str) -> str:
    return label.replace("|", "\\|").replace("*", "\\*")


def _columns(table: FigureTable, start: int, stop: int) -> Table:
    shown = Table(box=box.SIMPLE_HEAD)
    shown.add_column("method", overflow="fold", min_width=8)
    for name in table.columns[start:stop]:
        shown.add_column(name, justify="right", no_wrap=True)
    for label, cells in table.cells.items():
        shown.add_row(Text(label), *(_text(cells[n], (label, n) in table.best) for n in range(start, stop)))
    return shown


def _text(cell: Cell, bold: bool) -> Text:
    text = Text(cell.text, style="bold" if bold else "")
    return text.append(f"\n{cell.note}", style="not bold dim") if cell.note else text


def _measure(console: Console, table: FigureTable, start: int, stop: int) -> Measurement:
    return Measurement.get(console, console.options.update(width=10_000), _columns(table, start, stop))

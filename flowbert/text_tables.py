"""Tables of texts, for the terminal and the page."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from flowbert.progress import console_options

if TYPE_CHECKING:  # slow to import
    import pandas as pd


def in_order(values: "pd.Series", columns: list[str]) -> "pd.DataFrame":
    """Levels of an index as columns; rows and columns keep the order of first occurrence.

    Args:
        values: Values by rows and columns, each combination once.
        columns: Names of the levels that become columns.

    Example:
        >>> import pandas as pd
        >>> keys = [("b", "y"), ("b", "x"), ("a", "x")]
        >>> places = pd.MultiIndex.from_tuples(keys, names=["row", "column"])
        >>> in_order(pd.Series([1, 2, 3], places), ["column"]).values.tolist()
        [[1.0, 2.0], [nan, 3.0]]
    """
    rows = [name for name in values.index.names if name not in columns]
    return values.unstack(columns).reindex(
        index=values.index.droplevel(columns).unique(),
        columns=values.index.droplevel(rows).unique(),
    )


def short_names(paths: Iterable[str]) -> dict[str, str]:
    """The last part of each path, or as many parts as distinguish all of them.

    Example:
        >>> short_names(["runs/a/model", "runs/b/model"])
        {'runs/a/model': 'a/model', 'runs/b/model': 'b/model'}
    """
    names = {path: path for path in paths}
    for depth in range(1, 20):
        short = {path: "/".join(Path(path).parts[-depth:]) for path in names}
        if len(set(short.values())) == len(short):
            return short
    return names


_MARKDOWN = str.maketrans({x: f"\\{x}" for x in r"\|*<`"} | {"\n": " "})


def escape_markdown(text: str) -> str:
    r"""A text as the cell of a table in Markdown shows it.

    Example:
        >>> print(escape_markdown("views:maps=[a|b]"))
        views:maps=[a\|b]
    """
    return str(text).translate(_MARKDOWN)


_ANY_WIDTH = 10_000  # where no terminal is
_GAP = 2  # characters between two columns
_WHOLE: Any = dict.fromkeys(("break_long_words", "break_on_hyphens"), False)
_COMMAND = 4 * " "


def print_lines(lines: Sequence[str], style: str = "") -> None:
    """Print lines of text; a terminal wraps them between words.

    A line that begins with four spaces is a command; if it is too long, its options have a line
    each.
    """
    console = _console()
    for line in lines:
        wrapped = _wrap(line, console.width)
        console.print(wrapped, style=style, soft_wrap=True)


def _wrap(line: str, width: int) -> str:
    if not line.startswith(_COMMAND):
        return "\n".join(wrap(line, width, **_WHOLE))
    if len(line) <= width:
        return line
    parts = line.split("'")
    # Every second part is quoted.
    parts[::2] = [x.replace(" --", f" \\\n{2 * _COMMAND}--") for x in parts[::2]]
    return "'".join(parts)


def _console() -> Console:
    # A notebook would show each line as an output, in place of the stream.
    console = Console(force_jupyter=False, **console_options())
    if not console.is_terminal:
        console.width = _ANY_WIDTH
    return console


def print_table(text: "pd.DataFrame", title: str, groups: Sequence[str] = ()) -> None:
    """Print a table; columns that do not fit into the terminal are printed below the others.

    Args:
        text: The cells; the index names the rows. A row with a cell ``use`` is emphasized.
        title: A line above the table.
        groups: A name for each row, printed above the rows of equal names, unless all are equal.
    """
    console = _console()
    indent = "  " if len(set(groups)) > 1 else ""
    print_lines([title, ""])
    look = _WHOLE | {"initial_indent": indent, "subsequent_indent": 2 * indent}
    names = [
        "\n".join(wrap(str(name), console.width // 3, **look)) for name in text.index
    ]
    longest = max(map(len, "\n".join([*names, *groups]).splitlines()))
    for columns in _blocks(text, console.width - longest - _GAP):
        table = RichTable(box=None, padding=(0, _GAP, 0, 0), pad_edge=False)
        table.add_column("", no_wrap=True)
        for column in columns:
            table.add_column(column, justify="right", no_wrap=True)
        group = None
        for row, name in enumerate(names):
            if indent and groups[row] != group:
                group = groups[row]
                table.add_row(Text(group, "bold"))
            cells = text[columns].iloc[row].map(_dim_interval)
            style = "bold green" if "use" in text.iloc[row].values else ""
            table.add_row(Text(name), *cells, style=style)
        with console.capture() as captured:
            console.print(table)
        lines = captured.get().splitlines()
        print("\n".join([*map(str.rstrip, lines), ""]))


def _dim_interval(cell: str) -> Text:
    value, bracket, interval = cell.partition(" [")
    return Text.assemble(value, (bracket + interval, "not bold dim"))


def _blocks(text: "pd.DataFrame", width: int) -> Iterator[list[str]]:
    """Names of the columns of each block that fits into the terminal."""
    used, block = 0, list[str]()
    for column in text:
        size = max(map(len, [str(column), *text[column]])) + _GAP
        if block and used + size - _GAP > width:
            yield block
            used, block = 0, []
        used, block = used + size, [*block, str(column)]
    yield block

"""Tables of texts for the terminal and the page."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd


@dataclass(frozen=True, eq=False)
class Table:
    """A table of texts.

    Attributes:
        title: Its caption.
        text: The cells; the second line of a cell is an interval or standard deviation.
        folded: Whether it is a detail: folded on the page, left out on the terminal.
        words: Whether the cells are words, not numbers.
    """

    title: str
    text: pd.DataFrame
    folded: bool = False
    words: bool = False


def number_table(title: str, frame: pd.DataFrame) -> Table:
    """A frame with three decimals, or one where a column reaches 10; its first column names rows.

    Args:
        title: Caption.
        frame: One column of names, then numbers.

    Example:
        >>> frame = pd.DataFrame({"method": ["raw"], "mean_cosine": [0.5]})
        >>> number_table("Cosines", frame).text.loc["raw", "mean cosine"]
        '0.500'
    """
    numbers = frame.set_index(frame.columns[0])
    numbers.columns = numbers.columns.str.replace("_", " ")
    decimals = {name: 1 if numbers[name].abs().max() >= 10 else 3 for name in numbers}
    text = {
        name: numbers[name].map(f"{{:z.{n}f}}".format) for name, n in decimals.items()
    }
    return Table(title, pd.DataFrame(text))


def make_table(title: str, cells: pd.DataFrame, **look: bool) -> Table:
    """A table from its cells in long form.

    Args:
        title: Its caption.
        cells: Columns label, column and text; a label and column occur once.
        **look: ``folded`` and ``words`` of :class:`Table`.
    """
    texts = cells.set_index(["label", "column"])["text"]
    text = in_order(texts, ["column"]).rename_axis(index=None, columns=None)
    return Table(title, text.fillna(""), **look)


def in_order(values: pd.Series, columns: list[str]) -> pd.DataFrame:
    """Levels of an index as columns; rows and columns in the order in which they come first.

    Args:
        values: Values by rows and columns, each place once.
        columns: Names of the levels.

    Example:
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


def table_text(table: Table, width: int | None = None) -> str:
    """A table as plain text, intervals in lines of their own.

    Args:
        table: The table.
        width: Largest number of characters in a line: the settings of a row then follow its name
            in a second line, and further columns below.
    """
    first = table.text.map(lambda cell: cell.partition("\n")[0])
    second = table.text.map(lambda cell: cell.partition("\n")[2])
    text = _interleave(first, second.rename(lambda _: ""))
    if width is None or max(map(len, text.splitlines())) <= width:
        return text
    parts = [str(name).partition(" (") for name in first.index]
    first.index = pd.Index([name for name, _, _ in parts])
    rest = [f"  ({rest}" if rest else "" for _, _, rest in parts]
    return _interleave(first, second.set_axis(rest), width)


def _interleave(
    first: pd.DataFrame, second: pd.DataFrame, width: int | None = None
) -> str:
    """Both lines of each row; a line without any text is left out."""
    order = np.arange(2 * len(first)).reshape(2, -1).T.ravel()
    lines = pd.concat([first, second]).iloc[order]
    shown = (lines != "").any(axis=1).to_numpy() | (lines.index.to_numpy() != "")
    text = lines[shown].to_string(line_width=width)
    return "\n".join(line.rstrip() for line in text.splitlines())

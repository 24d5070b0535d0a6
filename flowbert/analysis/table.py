"""Tables of texts, as the terminal and the page show them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd


@dataclass(frozen=True, eq=False)
class Table:
    """A table of texts.

    Attributes:
        title: Its caption.
        text: The cells; the second line of a cell is an interval or standard deviation.
        bold: Frame of the cells that stand out; None for none.
        folded: Whether it is a detail: folded on the page, left out on the terminal.
        words: Whether the cells are words, not numbers.
    """

    title: str
    text: pd.DataFrame
    bold: Any = None
    folded: bool = False
    words: bool = False


def number_table(title: str, frame: pd.DataFrame) -> Table:
    """A frame with three decimals; its first column names the rows.

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
    return Table(title, numbers.map("{:.3f}".format))


def make_table(title: str, cells: pd.DataFrame, **look: bool) -> Table:
    """A table from its cells in long form.

    Args:
        title: Its caption.
        cells: Columns label, column, text and bold.
        **look: ``folded`` and ``words`` of :class:`Table`.
    """
    places = list(zip(cells["label"], cells["column"], strict=True))
    if len(set(places)) < len(places):
        raise ValueError(f"{title}: a cell has several texts")
    text = by_labels(dict(zip(places, cells["text"], strict=True)), "")
    bold = by_labels(dict(zip(places, cells["bold"], strict=True)), False)
    return Table(title, text, bold, **look)


def by_labels(cells: Mapping[tuple[Any, Any], Any], fill: Any) -> pd.DataFrame:
    """A table from cells by row and column, both in the order in which they come first.

    Args:
        cells: Values by row and column.
        fill: Value of missing cells.

    Example:
        >>> by_labels({("b", "y"): 1, ("b", "x"): 2, ("a", "x"): 3}, 0).values.tolist()
        [[1, 2], [0, 3]]
    """
    rows = list(dict.fromkeys(row for row, _ in cells))
    columns = list(dict.fromkeys(column for _, column in cells))
    values = [[cells.get((row, column), fill) for column in columns] for row in rows]
    # Labels may be tuples, which pandas would spread over levels.
    frame = pd.DataFrame(values)
    frame.index = pd.Index(rows, tupleize_cols=False, dtype=object)
    frame.columns = pd.Index(columns, tupleize_cols=False, dtype=object)
    return frame

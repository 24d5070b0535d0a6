"""Columns of one file, with the place of every row: a bad value is named by file and line, whatever the format."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from flowbert.errors import UserError, choices

_LONGEST = 20  # digits of a row number

Layouts = Sequence[Sequence[str]]
"""Sets of columns, of which a table must have one; none at all stands for the only column of a table."""


@dataclass(frozen=True)
class Table:
    """Chosen columns of one file.

    Args:
        path: The file.
        columns: Column name -> values as the file has them, each of length ``len(lines)``; in the order of the layout.
        lines: Line of each row in the file, from 1 (for parquet the row number, from 1).
        blank: Blank lines dropped.
    """

    path: Path
    columns: Mapping[str, Sequence[object]]
    lines: Sequence[int]
    blank: int = 0

    def __len__(self) -> int:
        return len(self.lines)

    def where(self, row: int) -> str:
        """Place of a row for an error message: ``file:line``."""
        return f"{self.path}:{self.lines[row]}"

    def rows(self, chosen: Sequence[int]) -> "Table":
        """Some of the rows."""
        columns = {name: [values[row] for row in chosen] for name, values in self.columns.items()}
        return Table(self.path, columns, [self.lines[row] for row in chosen], self.blank)

    def texts(self, column: str) -> list[str]:
        """Values of a text column.

        Raises:
            UserError: If a value is not a string (a number, null, NaN, a list), or no Unicode text.
        """
        values = self.columns[column]
        for row, value in enumerate(values):
            if not isinstance(value, str):
                raise UserError(f"{self.where(row)}: column {column!r} holds {shown(value)}; allowed: text")
            if not value.isascii() and not _is_unicode(value):
                raise UserError(
                    f"{self.where(row)}: column {column!r} holds {shown(value)} with a lone surrogate; "
                    "allowed: Unicode text"
                )
        return [str(value) for value in values]

    def stripped(self, column: str) -> tuple[str, ...]:
        """Values of a text column without outer white space, none of them empty.

        Raises:
            UserError: If a value is not text, or there is nothing in it.
        """
        texts = tuple(text.strip() for text in self.texts(column))
        for row, text in enumerate(texts):
            if not text:
                raise UserError(f"{self.where(row)}: column {column!r} is empty; allowed: a sentence")
        return texts

    def sentences(self, column: str, vectors: int | None = None) -> tuple[str, ...]:
        """The same with single spaces within: the sentences of a task, or the row numbers of so many vectors."""
        if vectors is not None:
            return self.row_numbers(column, vectors)
        return tuple(" ".join(text.split()) for text in self.stripped(column))

    def row_numbers(self, column: str, rows: int) -> tuple[str, ...]:
        """Row numbers of vectors, which stand where a task has its sentences: whole numbers from 0, as text.

        Args:
            column: Column of the numbers, or of texts that are numbers.
            rows: How many vectors there are.

        Raises:
            UserError: If a value is no such number.
        """
        found = []
        for row, value in enumerate(self.columns[column]):
            text = str(value).strip() if isinstance(value, str | int) and not isinstance(value, bool) else ""
            if not (text.isascii() and text.isdigit() and len(text) < _LONGEST and int(text) < rows):
                raise UserError(
                    f"{self.where(row)}: column {column!r} holds {shown(value)}; "
                    f"allowed: a row number of the vectors, 0 to {rows - 1}"
                )
            found.append(str(int(text)))
        return tuple(found)

    def numbers(self, column: str, low: float = -math.inf, high: float = math.inf) -> npt.NDArray[np.float64]:
        """Values of a number column as float64, each checked to be finite and in ``[low, high]``.

        Raises:
            UserError: If a value is not a number, is NaN, or lies outside.
        """
        values = self.columns[column]
        return np.array([parse_number(v, low, high, self.where(i), column) for i, v in enumerate(values)], np.float64)


def choose_columns(names: Sequence[str], layouts: Layouts, where: str) -> Sequence[str]:
    """The first layout whose columns are all there.

    Args:
        names: Columns that there are.
        layouts: Sets of columns that would do; without any, the only column does.
        where: File, or file and line, for the message.

    Raises:
        UserError: If none of them is there; the message names the columns that are.
    """
    layouts = layouts or ([names] if len(names) == 1 else [])
    for layout in layouts:
        if set(layout) <= set(names):
            return layout
    if not layouts:
        raise UserError(f"{where}: choose a column; {choices(names, '')}")
    if len(layouts) == 1:
        missing = next(column for column in layouts[0] if column not in names)
        raise UserError(f"{where}: no column {missing!r}; {choices(names, missing)}")
    allowed = " or ".join(", ".join(layout) for layout in layouts)
    raise UserError(f"{where}: the columns are {', '.join(names)}; allowed: {allowed}")


def parse_number(value: object, low: float, high: float, where: str, what: str = "score") -> float:
    """Turn one value into a finite number within ``[low, high]``.

    Raises:
        UserError: If it is not a number, is NaN, or lies outside; the message starts with ``where``.
    """
    try:
        number = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else math.nan
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or not low <= number <= high:
        allowed = "a finite number" if math.inf in (-low, high) else f"a number from {low:g} to {high:g}"
        raise UserError(f"{where}: {what} is {shown(value)}; allowed: {allowed}")
    return number


def shown(value: object) -> str:
    """A value in a message: cut where it is long, and with its type."""
    if value is None:
        return "null"
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    text = repr(value)
    return f"{text if len(text) <= 60 else text[:60] + '...'} ({type(value).__name__})"


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # JSON can name half a character: "\\ud800"
        return False
    return True

"""What may be averaged, ranked and called better: finite figures over the same columns, e.g. tasks."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Comparable:
    """Rows with a finite figure in each of the columns that any row has one in.

    Attributes:
        rows: These rows: their averages over ``columns`` can be compared.
        columns: Columns in which some row has a figure.
        left_out: Row -> columns in which it has none.
        empty: Columns in which no row has one.
    """

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    left_out: Mapping[str, tuple[str, ...]]
    empty: tuple[str, ...]

    @classmethod
    def of(cls, figures: Mapping[str, Mapping[str, float]], columns: Sequence[str]) -> "Comparable":
        """Find them; a figure that is missing, NaN or infinite is none.

        Example:
            >>> nan = math.nan
            >>> found = Comparable.of({"a": {"x": 1, "y": 2, "z": nan}, "b": {"x": 1, "y": nan}}, ["x", "y", "z"])
            >>> found.rows, found.columns, found.left_out, found.empty
            (('a',), ('x', 'y'), {'b': ('y',)}, ('z',))
        """
        finite = {row: {c for c, figure in mine.items() if math.isfinite(figure)} for row, mine in figures.items()}
        used = tuple(column for column in columns if any(column in mine for mine in finite.values()))
        lacking = {row: tuple(column for column in used if column not in mine) for row, mine in finite.items()}
        return cls(
            rows=tuple(row for row, columns_ in lacking.items() if used and not columns_),
            columns=used,
            left_out={row: columns_ for row, columns_ in lacking.items() if columns_},
            empty=tuple(column for column in columns if column not in used),
        )

    def told(self, what: str) -> list[str]:
        """What is left out of ``what``, a line each for rows and columns; nothing if nothing is."""
        lines = []
        if self.left_out:
            rows = "; ".join(f"{row} (no figure on {', '.join(lacking)})" for row, lacking in self.left_out.items())
            lines.append(f"left out of {what}: {rows}")
        if self.empty and self.columns:
            lines.append(f"left out of {what}, as nothing has a figure there: {', '.join(self.empty)}")
        return lines

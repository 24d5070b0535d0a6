"""Rows of csv, tsv, jsonl and parquet files; errors name file and row.

To add a format, write a function that reads its rows and add it to ``TABLE_FORMATS``.
"""

import csv
import io
import json
import math
import re
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from flowbert.data.text_files import check_file, read_lines, stream_lines
from flowbert.errors import UserError, choices, nearest, warn
from flowbert.numbers import parse_number

_QUOTED = re.compile(r'"(?:[^"]|"")*"')
_LONGEST_FIELD = 2**31 - 1  # the csv module has 131,072
Value = TypeVar("Value")
TableRow = Mapping[str, object]
LabelNames = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Row:
    """Values of one row by column.

    Args:
        path: The file.
        index: Number of the row, from 1, without header and blank lines.
        values: Values by column, in the order of the layout.
        label_names: Names of the labels 0, 1, ... by column, if the file has them.
    """

    path: Path
    index: int
    values: Mapping[str, object]
    label_names: LabelNames

    def error(self, column: str, expected: str) -> UserError:
        """An error that names the row and the value."""
        received = reprlib.repr(self.values[column])
        return UserError(
            f"{self.path}: row {self.index}: {column} is {received}; {expected}"
        )

    def text(self, column: str) -> str:
        """A text without outer white space.

        Raises:
            UserError: If the value is not text.
        """
        value = self.values[column]
        if not isinstance(value, str):
            raise self.error(column, "expected text")
        # JSON can hold half a character, such as "\ud800"; it becomes a question mark.
        return value.encode(errors="replace").decode().strip()

    def sentence(self, column: str) -> str:
        """A text that is not empty, with single spaces inside, as SentEval has it.

        Raises:
            UserError: If the value is not text, or empty.
        """
        text = " ".join(self.text(column).split())
        if not text:
            raise self.error(column, "expected a sentence")
        return text

    def number(self, column: str, low: float, high: float) -> float:
        """A finite number from ``low`` to ``high``.

        Raises:
            UserError: If the value is not such a number.
        """
        try:
            number = parse_number(str(self.values[column]))
        except ValueError:
            number = math.nan
        if not low <= number <= high:
            limits = "" if math.isinf(high - low) else f" from {low:g} to {high:g}"
            raise self.error(column, f"expected a finite number{limits}")
        return number

    def label(self, column: str, meaning: Mapping[str, Value]) -> Value:
        """The meaning of a label: of its name, if the file names its numbers.

        Raises:
            UserError: If the label is unknown.
        """
        value = self.values[column]
        names = self.label_names.get(column, ())
        if isinstance(value, int) and 0 <= value < len(names):
            value = names[value]
        label = str(value).strip().lower()
        if label not in meaning:
            named = f"named {label!r} in the file; " if names else ""
            raise self.error(column, f"{named}expected {choices(meaning, label)}")
        return meaning[label]


def read_table(
    path: str | Path, *layouts: Sequence[str], argument: str | None = None
) -> list[Row]:
    r"""Read columns of a csv, tsv, jsonl or parquet file (``.gz`` for the first three).

    A csv file has a header and RFC 4180 quoting. So has a tsv file if every field of it that begins
    with a quote is quoted, as pandas and spreadsheets write it; otherwise its quotes are plain
    characters (the IANA definition, and what NLP data sets do), with a warning if some fields are
    quoted. A jsonl file has one object per line. Blank lines are dropped.

    Args:
        path: The file.
        layouts: Lists of columns; the first that the file has is read. Without any: the only
            column.
        argument: Name of the argument that chooses the columns, for the message.

    Raises:
        UserError: If the file is missing, damaged, of another format, or lacks the columns.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "pairs.csv"
        >>> _ = path.write_text('a,b\n"one, two",3\n')
        >>> read_table(path, ["a"])[0].text("a")
        'one, two'
    """
    path = Path(path)
    extension = _extension(path)
    reader = TABLE_FORMATS.get(extension)
    if reader is None:
        raise UserError(
            f"{path}: received {path.suffix!r}; expected {choices(TABLE_FORMATS, path.suffix)}"
        )
    check_file(path)
    records = reader(path)
    names = list(records[0]) if records and not layouts else []
    # A column that is named by a sentence: the header is missing.
    if extension in (".csv", ".tsv") and len(names) == 1 and len(names[0].split()) > 1:
        raise UserError(
            f"{path}: its first line, the name of its column, is {reprlib.repr(names[0])}; "
            "expected a header, or this name given as the column"
        )
    label_names = _read_label_names(path) if extension == ".parquet" else {}
    return rows_of(path, records, layouts, argument, label_names)


def is_table(name: str | Path) -> bool:
    """Whether a name is that of a file with columns.

    Example:
        >>> is_table("data/pairs.tsv.gz"), is_table("data/lines.txt"), is_table("STSB")
        (True, False, False)
    """
    return _extension(Path(name)) in TABLE_FORMATS


def _extension(path: Path) -> str:
    return Path(path.name.lower().removesuffix(".gz")).suffix


def choose_columns(
    names: Sequence[str],
    layouts: Sequence[Sequence[str]],
    path: Path,
    argument: str | None = None,
) -> Sequence[str]:
    """The first layout whose columns are all in ``names``; without layouts, the only name.

    Args:
        names: Available columns.
        layouts: Lists of columns.
        path: File or folder with the columns, for the message.
        argument: Name of the argument that chooses the columns, for the message.

    Raises:
        UserError: If no layout fits.
    """
    if not layouts and len(names) == 1:
        return names
    for layout in layouts:
        if set(layout) <= set(names):
            return layout
    wanted = " or ".join(", ".join(layout) for layout in layouts)
    missing = [column for layout in layouts for column in layout if column not in names]
    similar = nearest(names, missing[0]) if missing else ""
    present = ", ".join(names)
    if argument is None:
        expected = wanted or "a column to read"
        raise UserError(
            f"{path}: has the columns {present}; expected {expected}{similar}"
        )
    raise UserError(
        f"received {wanted or 'none'}; {path} has the columns {present}{similar}",
        argument=argument,
    )


def rows_of(
    path: Path,
    records: Sequence[TableRow],
    layouts: Sequence[Sequence[str]],
    argument: str | None = None,
    label_names: LabelNames = MappingProxyType({}),
) -> list[Row]:
    """Rows of records, reduced to the columns of a layout.

    Args:
        path: File or folder of the records.
        records: Values of each row by column.
        layouts: As in :func:`choose_columns`.
        argument: As in :func:`choose_columns`.
        label_names: As in :class:`Row`.

    Raises:
        UserError: If there are no records, or no layout fits the first record.
    """
    if not records:
        raise UserError(f"{path}: has no row")
    columns = choose_columns(list(records[0]), layouts, path, argument)
    rows = ({column: record.get(column) for column in columns} for record in records)
    return [Row(path, i, row, label_names) for i, row in enumerate(rows, start=1)]


class Tabs(csv.excel_tab):
    """Fields between tabs, in which quotes are plain characters."""

    quoting = csv.QUOTE_NONE


def field_records(
    path: Path,
    lines: Iterable[str],
    dialect: type[csv.Dialect] = Tabs,
    names: Sequence[str] = (),
) -> list[TableRow]:
    """Records of lines with fields.

    Args:
        path: File of the lines.
        lines: The lines.
        dialect: Separator and quotes.
        names: Columns of a file without a header; fields beyond them are ignored.

    Raises:
        UserError: If a row has another number of fields, a column occurs twice, or quotes do not
            match.
    """
    further = bool(names)
    records: list[TableRow] = []
    limit = csv.field_size_limit(_LONGEST_FIELD)
    try:
        for fields in csv.reader(lines, dialect, strict=True):
            is_cell = len(fields) == len(names) == 1  # of the only column
            if not any(field.strip() for field in fields) and not (fields and is_cell):
                continue
            if not names:
                names = fields
                continue
            if len(fields) < len(names) or (len(fields) > len(names) and not further):
                raise csv.Error(f"{len(fields)} fields; expected {', '.join(names)}")
            records.append(dict(zip(names, fields, strict=False)))
    except csv.Error as error:
        raise UserError(f"{path}: row {len(records) + 1}: {error}") from error
    finally:
        csv.field_size_limit(limit)
    for name in filter(None, names):  # spreadsheets have empty headers
        if names.count(name) > 1:
            raise UserError(
                f"{path}: has {names.count(name)} columns {name!r}; expected one"
            )
    return records


# Not with pyarrow, which reads an open quote as a field that ends with the file, and text like a
# date as a timestamp.


def _read_csv(path: Path) -> list[TableRow]:
    lines = io.StringIO("".join(stream_lines(path)), newline="")
    return field_records(path, lines, csv.excel)


def read_tsv(path: Path) -> list[TableRow]:
    """Records of a file with a header and tabs, in which quotes are plain characters."""
    return field_records(path, read_lines(path))


def _read_quoted_or_plain(path: Path) -> list[TableRow]:
    """Records of a .tsv file, with the quoting of csv if that fits all of its quotes."""
    lines = read_lines(path)
    quotes = [*_find_quotes(lines)]
    opened = [number for number, is_closed in quotes if not is_closed]
    tabs = {line.count("\t") for line in lines if line.strip()}
    is_plain = len(tabs) == 1 and tabs != {0}  # each line is a row of several fields
    # A quote that is opened in one row and closed in another must not join them.
    if quotes and not (opened and is_plain):
        with suppress(UserError):
            return field_records(path, stream_lines(path), csv.excel_tab)
    records = field_records(path, lines)
    if 0 < len(opened) < len(quotes):
        warn(
            f"{path}: line {opened[0]} has a field that begins with a quote and is not quoted as "
            "in csv, unlike others; all quotes are read as characters"
        )
    return records


def _find_quotes(lines: Iterable[str]) -> Iterator[tuple[int, bool]]:
    """Line of each field that begins with a quote, and whether it is quoted as in csv."""
    for number, line in enumerate(lines, start=1):
        if '"' in line:
            for field in line.split("\t"):
                if field.startswith('"'):
                    yield number, _QUOTED.fullmatch(field) is not None


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """A dictionary of names and values; a ValueError for a repeated name."""
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!r} is in it twice")
    return values


def _read_jsonl(path: Path) -> list[TableRow]:
    records: list[TableRow] = []
    for line in read_lines(path):
        if not line.strip():
            continue
        try:
            record = json.loads(line, object_pairs_hook=_unique)
            if not isinstance(record, dict):
                raise ValueError(f"received {reprlib.repr(record)}; expected an object")
        except (ValueError, RecursionError) as error:
            raise UserError(
                f"{path}: row {len(records) + 1}: not JSON ({error})"
            ) from error
        records.append(record)
    return records


def _read_parquet(path: Path) -> list[TableRow]:
    import pyarrow.parquet

    try:
        schema = pyarrow.parquet.read_schema(path)
        # Columns of vectors are skipped.
        flat = [
            field.name for field in schema if not pyarrow.types.is_nested(field.type)
        ]
        records: list[TableRow] = pyarrow.parquet.read_table(
            path, columns=flat
        ).to_pylist()
    except (pyarrow.ArrowException, OSError, ValueError, ArithmeticError) as error:
        raise UserError(
            f"{path}: not parquet, damaged, or not UTF-8 ({error})"
        ) from error
    return records


def _read_label_names(path: Path) -> LabelNames:
    """Names of the labels in a parquet file that ``datasets`` wrote, by column."""
    import pyarrow.parquet

    metadata = pyarrow.parquet.read_schema(path).metadata or {}
    try:
        info = json.loads(metadata.get(b"huggingface", b"{}")).get("info", {})
        features = info.get("features", {}).items()
        return {
            column: [str(name) for name in feature["names"]]
            for column, feature in features
            if feature.get("_type") == "ClassLabel"
        }
    except (ValueError, RecursionError, AttributeError, TypeError, KeyError) as error:
        raise UserError(
            f"{path}: its metadata of datasets is damaged ({error})"
        ) from error


TABLE_FORMATS: dict[str, Callable[[Path], list[TableRow]]] = {
    ".csv": _read_csv,
    ".tsv": _read_quoted_or_plain,
    ".jsonl": _read_jsonl,
    ".parquet": _read_parquet,
}
"""Reader of each extension."""

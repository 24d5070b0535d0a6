"""Table and text files by format, read into one kind of table.

A new format is one function here, from a path and column layouts to a :class:`~flowbert.data.table.Table`, and its
entry in :data:`FORMATS`.
"""

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from flowbert.data.files import check_file
from flowbert.data.table import Layouts, Table, choose_columns, shown
from flowbert.data.text import iterate_lines, not_utf8, read_lines
from flowbert.errors import UserError

Records = Iterator[tuple[int, dict[str, object] | None]]
"""Line in the file, and what is there: column -> value, or None for a blank line."""

Rows = Iterator[tuple[int, list[str]]]
"""Line in the file, and its fields; none for a blank line."""


def read_table(path: str | Path, *layouts: Sequence[str]) -> Table:
    r"""Read columns of a csv, tsv, jsonl or parquet file (``.gz`` for the first three).

    A csv file has a header and RFC 4180 quoting; a tsv file has a header and quotes are plain characters in it (the
    IANA definition, and what NLP data sets do); a jsonl file has one object a line. Blank lines are dropped and
    counted.

    Args:
        path: The file.
        layouts: Names of the columns to keep; of several such lists, the first that the file has. Without any: the
            only column.

    Raises:
        UserError: If the file is missing, empty, binary, undecodable, lacks the columns, or has a ragged row or a line
            that is no JSON object; the message names file and line, and the columns there are.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "pairs.csv"
        >>> _ = path.write_text('a,b\n"one, two",3\n')
        >>> read_table(path, ["a"]).texts("a")
        ['one, two']
    """
    path = Path(path)
    suffix = file_format(path)
    if layouts and not FORMATS[suffix].columns:
        raise UserError(f"{path}: a {suffix} file has no columns; allowed: {', '.join(TABLES)}")
    table = FORMATS[suffix].read(path, layouts)
    if not len(table):
        raise UserError(f"{path}: no row, only a header or blank lines")
    return table


def file_format(path: str | Path) -> str:
    """Extension that decides how a file is read, without ``.gz``: one of :data:`FORMATS`.

    Raises:
        UserError: If the extension is another one; the message names the allowed ones.
    """
    name = Path(path).name.lower()
    suffix = Path(name.removesuffix(".gz")).suffix
    received = f"{suffix}.gz" if name.endswith(".gz") else suffix
    allowed = [*FORMATS, *(f"{plain}.gz" for plain, found in FORMATS.items() if found.zipped)]
    if received not in allowed:
        raise UserError(f"{path}: unknown extension {received!r}; allowed: {', '.join(allowed)}")
    return suffix


def read_delimited(path: str | Path) -> list[list[str]]:
    """Fields between tabs of every line, quotes as plain characters, as in the STS files; a blank line is ``[]``."""
    return [fields for _, fields in _tab_rows(Path(path))]


def named_fields(
    path: Path, rows: Iterable[tuple[int, Sequence[str]]], names: Sequence[str], *, more: bool = False
) -> Table:
    """Table of a file without a header.

    Args:
        path: The file.
        rows: Line and fields of each row; blank ones (no field) are dropped.
        names: Name of each field.
        more: Whether a row may have further fields, which are dropped.

    Raises:
        UserError: If a row has another number of fields.
    """
    lines, filled = [], []
    for line, fields in rows:
        if fields and (len(fields) < len(names) or (len(fields) > len(names) and not more)):
            allowed = f"{len(names)}{' or more' if more else ''} with tabs between them ({', '.join(names)})"
            raise UserError(f"{path}:{line}: {len(fields)} fields; allowed: {allowed}")
        if fields:
            lines.append(line)
            filled.append(fields)
    return Table(path, {name: [fields[i] for fields in filled] for i, name in enumerate(names)}, lines)


def read_tabs(path: Path, columns: Sequence[str]) -> Table:
    """Columns of a file with a header and tabs, whatever its extension."""
    return _read_rows(_tab_rows, path, [columns])


def _read_text(path: Path, _layouts: Layouts) -> Table:
    lines = read_lines(path)
    return Table(path, {"sentence": lines}, range(1, len(lines) + 1))


def _read_jsonl(path: Path, layouts: Layouts) -> Table:
    return _collected(path, _json_records(path), layouts)


def _read_parquet(path: Path, layouts: Layouts) -> Table:
    import pyarrow.parquet

    check_file(path)
    with parquet_errors(path):
        columns = choose_columns(pyarrow.parquet.read_schema(path).names, layouts, str(path))
        table = pyarrow.parquet.read_table(path, columns=list(columns))
    return arrow_columns(path, table, columns)


@contextmanager
def parquet_errors(path: Path) -> Iterator[None]:
    """Turn what pyarrow says of a parquet file into a UserError that names it."""
    import pyarrow

    try:
        yield
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: the name of a column is not UTF-8 ({error})") from error
    except (pyarrow.ArrowException, OSError) as error:
        raise UserError(f"{path}: not a parquet file, or damaged ({str(error).splitlines()[0]})") from error


def arrow_columns(path: Path, table: Any, columns: Sequence[str]) -> Table:
    """Columns of a table of pyarrow, as Python has the values.

    Raises:
        UserError: If there is a value that Python cannot have (text that is not UTF-8); the message names its row.
    """
    values = {column: list(_python_values(table.column(column), f"{path}:", column)) for column in columns}
    return Table(path, values, range(1, table.num_rows + 1))


def _python_values(scalars: Iterable[Any], where: str, column: str) -> Iterator[object]:
    for row, scalar in enumerate(scalars, start=1):
        try:
            yield scalar.as_py()
        except (ValueError, ArithmeticError) as error:
            reason = not_utf8(error) if isinstance(error, UnicodeDecodeError) else " ".join(str(error).split())
            raise UserError(f"{where}{row}: column {column!r}: {reason}") from error


def _collected(path: Path, records: Records, layouts: Layouts, *, header: bool = False) -> Table:
    """Chosen columns of all records; the first one tells which columns there are, and no more if it is a header."""
    columns: dict[str, list[object]] = {}
    lines: list[int] = []
    blank = 0
    for line, record in records:
        if record is None:
            blank += 1
            continue
        if not columns:
            columns = {column: [] for column in choose_columns(list(record), layouts, f"{path}:{line}")}
            if header:
                continue
        elif not columns.keys() <= record.keys():
            choose_columns(list(record), [list(columns)], f"{path}:{line}")
        for column, values in columns.items():
            values.append(record[column])
        lines.append(line)
    return Table(path, columns, lines, blank)


def _read_rows(rows: Callable[[Path], Rows], path: Path, layouts: Layouts) -> Table:
    """Table of a file whose first row is the header."""
    return _collected(path, _records(path, rows(path)), layouts, header=True)


def _records(path: Path, rows: Rows) -> Records:
    """Rows as records, the header too."""
    header: list[str] = []
    for line, fields in rows:
        if not fields:
            yield line, None
        elif not header:
            header = fields
            twice = next((name for name in header if name and header.count(name) > 1), None)
            if twice is not None:
                raise UserError(f"{path}:{line}: {header.count(twice)} columns named {twice!r}; allowed: one")
            yield line, dict.fromkeys(header)
        elif len(fields) != len(header):
            raise UserError(f"{path}:{line}: {len(fields)} fields; allowed: {len(header)}, as in the header")
        else:
            yield line, dict(zip(header, fields, strict=True))


def _tab_rows(path: Path) -> Rows:
    for number, line in enumerate(iterate_lines(path), start=1):
        yield number, line.split("\t") if line.strip() else []


def _csv_rows(path: Path) -> Rows:
    reader = csv.reader((line + "\n" for line in iterate_lines(path)), strict=True)
    start = 1
    try:
        for fields in reader:
            yield start, fields if any(field.strip() for field in fields) else []
            start = reader.line_num + 1
    except csv.Error as error:
        raise UserError(
            f"{path}:{start}: bad quoting in the row that starts here ({error}); allowed: RFC 4180"
        ) from error


def _json_records(path: Path) -> Records:
    for number, line in enumerate(iterate_lines(path), start=1):
        if not line.strip():
            yield number, None
            continue
        try:
            record = json.loads(line)
        except (json.JSONDecodeError, RecursionError) as error:
            raise UserError(f"{path}:{number}: invalid JSON ({error}); allowed: one JSON object a line") from error
        if not isinstance(record, dict):
            raise UserError(f"{path}:{number}: JSON {shown(record)}; allowed: one JSON object a line")
        yield number, record


class Format(NamedTuple):
    """How files with an extension are read.

    Attributes:
        read: From a path and column layouts to a table.
        columns: Whether there are columns to choose from; else there is one sentence a line.
        zipped: Whether ``.gz`` may follow the extension.
    """

    read: Callable[[Path, Layouts], Table]
    columns: bool = True
    zipped: bool = True


FORMATS = {
    ".txt": Format(_read_text, columns=False),
    ".csv": Format(partial(_read_rows, _csv_rows)),
    ".tsv": Format(partial(_read_rows, _tab_rows)),
    ".jsonl": Format(_read_jsonl),
    ".parquet": Format(_read_parquet, zipped=False),
}
"""Extension -> how it is read."""

TABLES = tuple(suffix for suffix, found in FORMATS.items() if found.columns)
"""Extensions of tables."""

"""Text and table files read line by line, with errors that name the file, the line and what is allowed."""

import csv
import gzip
import json
import math
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from flowbert.data.files import check_file, expand_files, file_format
from flowbert.errors import UserError, choices

_BOM = b"\xef\xbb\xbf"


def read_lines(path: str | Path) -> list[str]:
    r"""Every line of a UTF-8 text file (``.gz`` too), blank ones included, without line ends.

    Lines end with ``\n`` or ``\r\n`` and with nothing else: a Unicode line separator inside a sentence does not cut it.
    A byte order mark is dropped.

    Raises:
        UserError: If the file is missing, empty, binary, or not UTF-8 (with the line of the first bad byte).

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "sentences.txt"
        >>> _ = path.write_bytes(b"A dog runs.\r\n\r\nA cat sleeps.")
        >>> read_lines(path)
        ['A dog runs.', '', 'A cat sleeps.']
    """
    return list(_decoded_lines(Path(path)))


def _decoded_lines(path: Path) -> Iterator[str]:
    check_file(path)
    number = 0
    try:
        with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as handle:
            for number, raw in enumerate(handle, start=1):
                yield _decode(raw.removeprefix(_BOM) if number == 1 else raw, path, number)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(f"{path}:{number + 1}: not a complete gzip file ({error})") from error
    except PermissionError as error:
        raise UserError(f"{path}: the file may not be read ({error.strerror})") from error
    if number == 0:
        raise UserError(f"{path}: the file is empty")


def _decode(raw: bytes, path: Path, number: int) -> str:
    if b"\0" in raw:
        raise UserError(f"{path}:{number}: binary file (a zero byte in this line); allowed: UTF-8 text")
    try:
        return raw.decode("utf-8").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path}:{number}: byte 0x{raw[error.start]:02x} at position {error.start + 1} of the line is not UTF-8; "
            "allowed: UTF-8 text"
        ) from error


def read_delimited(path: str | Path, delimiter: str = "\t") -> list[list[str]]:
    """Fields of every line, quotes as plain characters and no header, as in the STS files; a blank line is ``[]``."""
    return [line.split(delimiter) if line.strip() else [] for line in _decoded_lines(Path(path))]


@dataclass(frozen=True)
class Table:
    """Chosen columns of one file and the place of every row, so that a bad value can be named.

    Args:
        path: The file.
        columns: Column name -> values as the file has them, each of length ``len(lines)``.
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

    def texts(self, column: str) -> list[str]:
        """Values of a text column.

        Raises:
            UserError: If a value is not a string (a number, null, NaN, a list), or no Unicode text.
        """
        values = self.columns[column]
        for row, value in enumerate(values):
            if not isinstance(value, str):
                raise UserError(f"{self.where(row)}: column {column!r} holds {_shown(value)}; allowed: text")
            if not value.isascii() and not _is_unicode(value):
                raise UserError(
                    f"{self.where(row)}: column {column!r} holds {_shown(value)} with a lone surrogate; "
                    "allowed: Unicode text"
                )
        return [str(value) for value in values]

    def numbers(self, column: str, low: float, high: float) -> npt.NDArray[np.float64]:
        """Values of a number column as float64, each checked to lie in ``[low, high]``.

        Raises:
            UserError: If a value is not a number, is NaN, or lies outside.
        """
        values = self.columns[column]
        return np.array([parse_number(v, low, high, self.where(i), column) for i, v in enumerate(values)], np.float64)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # JSON can name half a character: "\\ud800"
        return False
    return True


def parse_number(value: object, low: float, high: float, where: str, what: str = "score") -> float:
    """Turn one value into a number within ``[low, high]``.

    Raises:
        UserError: If it is not a number, is NaN, or lies outside; the message starts with ``where``.
    """
    try:
        number = float(value) if isinstance(value, (str, int, float)) and not isinstance(value, bool) else None
    except ValueError:
        number = None
    if number is None or not low <= number <= high:
        raise UserError(f"{where}: {what} is {_shown(value)}; allowed: a number from {low:g} to {high:g}")
    return number


def _shown(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    text = repr(value)
    return f"{text if len(text) <= 60 else text[:60] + '...'} ({type(value).__name__})"


def column_names(path: str | Path) -> list[str]:
    """Names of the columns of a table file: the header, the keys of the first JSON line, or the parquet schema."""
    path = Path(path)
    extension = table_format(path)
    if extension == ".parquet":
        return _parquet_names(path)
    if extension == ".jsonl":
        return next((list(record) for _, record in _json_records(path) if record is not None), [])
    return next((fields for _, fields in _csv_rows(path) if fields), [])


def table_format(path: Path) -> str:
    """Extension of a table file without ``.gz``: ``.csv``, ``.tsv``, ``.jsonl``, ``.parquet``; UserError for others."""
    extension = file_format(path)
    if extension == ".txt":
        raise UserError(f"{path}: a .txt file has no columns; allowed: .csv, .tsv, .jsonl, .parquet")
    return extension


def read_table(path: str | Path, columns: Sequence[str]) -> Table:
    r"""Read named columns of a csv, tsv, jsonl or parquet file (``.gz`` for the first three).

    A csv file has a header and RFC 4180 quoting; a tsv file has a header and quotes are plain characters in it (the
    IANA definition, and what NLP data sets do); a jsonl file has one object a line. Blank lines are dropped and
    counted.

    Args:
        path: The file.
        columns: Columns to keep.

    Raises:
        UserError: If the file is missing, empty, binary, undecodable, lacks a column, or has a ragged row or a line
            that is no JSON object; the message names file and line, and the columns there are.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "pairs.csv"
        >>> _ = path.write_text('a,b\n"one, two",3\n')
        >>> read_table(path, ["a"]).texts("a")
        ['one, two']
    """
    path = Path(path)
    readers = {".csv": _read_csv, ".tsv": _read_csv, ".jsonl": _read_jsonl, ".parquet": _read_parquet}
    table = readers[table_format(path)](path, columns)
    if not len(table):
        raise UserError(f"{path}: the file has a header but no rows")
    return table


def _missing(where: str, column: str, names: Iterable[str]) -> UserError:
    return UserError(f"{where}: no column {column!r}; {choices(names, column)}")


def _csv_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    if file_format(path) == ".tsv":
        for number, line in enumerate(_decoded_lines(path), start=1):
            yield number, line.split("\t") if line.strip() else []
        return
    reader = csv.reader((line + "\n" for line in _decoded_lines(path)), strict=True)
    start = 1
    try:
        for fields in reader:
            yield start, fields if any(field.strip() for field in fields) else []
            start = reader.line_num + 1
    except csv.Error as error:
        raise UserError(
            f"{path}:{start}: bad quoting in the row that starts here ({error}); allowed: RFC 4180"
        ) from error


def _read_csv(path: Path, columns: Sequence[str]) -> Table:
    rows = _csv_rows(path)
    blank = 0
    header: list[str] = []
    while not header:
        line, header = next(rows, (0, []))
        if line == 0:
            raise UserError(f"{path}: the file has only blank lines")
        blank += not header
    kept: dict[str, list[object]] = {column: [] for column in columns}
    places = [_column_index(path, line, header, column) for column in columns]
    lines: list[int] = []
    for line, fields in rows:
        if not fields:
            blank += 1
            continue
        if len(fields) != len(header):
            raise UserError(f"{path}:{line}: {len(fields)} fields; allowed: {len(header)}, as in the header")
        lines.append(line)
        for column, place in zip(columns, places, strict=True):
            kept[column].append(fields[place])
    return Table(path, kept, lines, blank)


def _column_index(path: Path, line: int, header: list[str], column: str) -> int:
    if column not in header:
        raise _missing(f"{path}:{line}", column, header)
    if header.count(column) > 1:
        raise UserError(f"{path}:{line}: {header.count(column)} columns named {column!r}; allowed: one")
    return header.index(column)


def _json_records(path: Path) -> Iterator[tuple[int, dict[str, object] | None]]:
    for number, line in enumerate(_decoded_lines(path), start=1):
        if not line.strip():
            yield number, None
            continue
        try:
            record = json.loads(line)
        except (json.JSONDecodeError, RecursionError) as error:
            raise UserError(f"{path}:{number}: invalid JSON ({error}); allowed: one JSON object a line") from error
        if not isinstance(record, dict):
            raise UserError(f"{path}:{number}: JSON {_shown(record)}; allowed: one JSON object a line")
        yield number, record


def _read_jsonl(path: Path, columns: Sequence[str]) -> Table:
    kept: dict[str, list[object]] = {column: [] for column in columns}
    lines: list[int] = []
    blank = 0
    for number, record in _json_records(path):
        if record is None:
            blank += 1
            continue
        for column in columns:
            if column not in record:
                raise _missing(f"{path}:{number}", column, record)
            kept[column].append(record[column])
        lines.append(number)
    return Table(path, kept, lines, blank)


def _parquet_names(path: Path) -> list[str]:
    import pyarrow
    import pyarrow.parquet

    check_file(path)
    try:
        return list(pyarrow.parquet.read_schema(path).names)
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: the name of a column is not UTF-8 ({error})") from error
    except (pyarrow.ArrowException, OSError) as error:
        raise UserError(f"{path}: not a parquet file ({str(error).splitlines()[0]})") from error


def _read_parquet(path: Path, columns: Sequence[str]) -> Table:
    import pyarrow
    import pyarrow.parquet

    names = _parquet_names(path)
    for column in columns:
        if column not in names:
            raise _missing(str(path), column, names)
    try:
        table = pyarrow.parquet.read_table(path, columns=list(columns))
    except (pyarrow.ArrowException, OSError) as error:
        raise UserError(f"{path}: damaged parquet file ({str(error).splitlines()[0]})") from error
    kept = {column: _parquet_values(path, column, table.column(column)) for column in columns}
    return Table(path, kept, range(1, table.num_rows + 1))


def _parquet_values(path: Path, column: str, values: Any) -> list[object]:
    """Values of a column as Python has them; what pyarrow cannot turn into them (bad UTF-8) is named by its row."""
    try:
        return list(values.to_pylist())
    except (ValueError, ArithmeticError) as error:
        row = first_bad_row(lambda row: values[row].as_py(), len(values))
        raise UserError(f"{path}:{row}: column {column!r} {unreadable_value(error)}") from error


def first_bad_row(value: Callable[[int], object], rows: int) -> int:
    """Number, from 1, of the first row whose ``value(row)`` cannot be made; 0 if none."""
    for row in range(rows):
        try:
            value(row)
        except (ValueError, ArithmeticError):
            return row + 1
    return 0


def unreadable_value(error: Exception) -> str:
    """Say why a value of a binary table cannot be read, and what is allowed."""
    if isinstance(error, UnicodeDecodeError):
        byte = error.object[error.start]
        return f"holds the byte 0x{byte:02x} at position {error.start + 1} of a text, not UTF-8; allowed: UTF-8 text"
    return f"cannot be read ({' '.join(str(error).split())}); allowed: text or numbers"


@dataclass(frozen=True)
class Sentences:
    """Sentences of one or more files in order, every occurrence, and how many blank ones were dropped."""

    sentences: tuple[str, ...]
    blank: int


def read_sentences(source: str | Path, column: str | None = None) -> Sentences:
    """Sentences of text files (one a line) or of a column of table files, outer white space removed.

    Args:
        source: A path, a glob, or a comma-separated list of them; kinds may be mixed.
        column: Column of the table files; may be left out where a file has only one.

    Raises:
        UserError: If a file is missing or bad, a table's column is not named, or there is no sentence at all.
    """
    kept: list[str] = []
    blank = 0
    for path in expand_files(source):
        lines, dropped = _file_texts(path, column)
        texts = [text for line in lines if (text := line.strip())]
        kept.extend(texts)
        blank += dropped + len(lines) - len(texts)
    if not kept:
        raise UserError(f"{source}: no sentence, only {blank} blank lines")
    return Sentences(tuple(kept), blank)


def _file_texts(path: Path, column: str | None) -> tuple[list[str], int]:
    if file_format(path) == ".txt":
        return read_lines(path), 0
    if column is None:
        names = column_names(path)
        if len(names) != 1:
            raise UserError(f"{path}: a table with {len(names)} columns needs the option column; {choices(names, '')}")
        column = names[0]
    table = read_table(path, [column])
    return table.texts(column), table.blank

"""Tables as data frames: csv, tsv, jsonl, parquet, arrow and feather; errors name file and row.

To add a format, write a function that reads a frame from an open file and add it to
``TABLE_FORMATS``; for a compression see :mod:`flowbert.data.text_files`.
"""

import csv
import io
import json
import math
import reprlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import pandas as pd

from flowbert.data.text_files import check_file, extension, open_file
from flowbert.errors import UserError, choices, first_line, nearest
from flowbert.numbers import parse_number

Value = TypeVar("Value")
_FIELD_SEPARATORS = ";|\t,"


def read_frame(path: str | Path, *layouts: Sequence[str]) -> pd.DataFrame:
    r"""Read columns of a table; its name may end in ``.gz`` or ``.zst``.

    A csv file has a header and RFC 4180 quoting; quotes in a tsv file are plain characters (the
    IANA definition, and what NLP data sets do). A header without the usual separator may have
    another one (``;``, ``|``, tab or comma), or Excel's line ``sep=;`` above it. A jsonl file has
    one object per line. Blank lines are dropped.

    Args:
        path: The file.
        layouts: Lists of columns; the first that the file has is read. Without any: the only
            column.

    Returns:
        A frame of the columns in the order of the layout, the number of each row from 1 as index.

    Raises:
        UserError: If the file is missing, damaged, of another format, or lacks the columns.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "pairs.csv"
        >>> _ = path.write_text('a,b\n"one, two",3\n')
        >>> read_texts(read_frame(path, ["a"]), "a")
        ['one, two']
    """
    path = Path(path)
    suffix = extension(path)
    if suffix not in TABLE_FORMATS:
        raise UserError(
            f"{path}: received {path.suffix!r}; expected {choices(TABLE_FORMATS, path.suffix)}"
        )
    check_file(path)
    try:
        with open_file(path) as file:
            frame = TABLE_FORMATS[suffix](file)
    # pandas, pyarrow and json raise unrelated types.
    except Exception as error:
        raise UserError(
            f"{path}: not {suffix[1:]}, damaged, or not UTF-8 ({first_line(error)})"
        ) from error
    names = list(frame)
    # A column that is named by a sentence: the header is missing.
    if not layouts and len(names) == 1 and len(str(names[0]).split()) > 1:
        raise UserError(
            f"{path}: its first line, the name of its column, is {reprlib.repr(names[0])}; "
            "expected a header, or this name given as the column"
        )
    return make_frame(path, frame, layouts)


def is_table(name: str | Path) -> bool:
    """Whether a name is that of a file with columns.

    Example:
        >>> is_table("data/pairs.tsv.gz"), is_table("data/lines.txt"), is_table("STSB")
        (True, False, False)
    """
    return extension(name) in TABLE_FORMATS


def choose_columns(
    names: Sequence[str],
    layouts: Sequence[Sequence[str]],
    path: Path,
) -> Sequence[str]:
    """The first layout whose columns are all in ``names``; without layouts, the only name.

    Args:
        names: Available columns.
        layouts: Lists of columns.
        path: File or folder with the columns, for the message.

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
    raise UserError(
        f"{path}: has the columns {', '.join(names)}; expected "
        f"{wanted or 'the name of one as column'}{similar}"
    )


def make_frame(
    path: Path,
    frame: pd.DataFrame,
    layouts: Sequence[Sequence[str]],
) -> pd.DataFrame:
    """A frame as of :func:`read_frame`, whose errors name a file.

    Args:
        path: File or folder of the rows.
        frame: All columns.
        layouts: As in :func:`choose_columns`.

    Raises:
        UserError: If there is no row, no layout fits, or a column occurs twice.
    """
    if not len(frame):
        raise UserError(f"{path}: has no row")
    names = list(map(str, frame))
    for name in filter(None, names):  # spreadsheets have empty headers
        if names.count(name) > 1:
            raise UserError(
                f"{path}: has {names.count(name)} columns {name!r}; expected one"
            )
    columns = list(choose_columns(names, layouts, path))
    chosen = frame[columns].set_axis(range(1, len(frame) + 1))
    chosen.attrs["source"] = str(path)
    return chosen


def frame_of_lines(
    path: Path, lines: Sequence[str], names: Sequence[str]
) -> pd.DataFrame:
    """Fields between tabs as columns; fields beyond the names are ignored.

    Raises:
        UserError: If a line has too few fields.
    """
    rows = [line.split("\t") for line in lines if line.strip()]
    for number, row in enumerate(rows, start=1):
        if len(row) < len(names):
            raise UserError(
                f"{path}: row {number}: {len(row)} fields; expected {', '.join(names)}"
            )
    return pd.DataFrame([row[: len(names)] for row in rows], columns=list(names))


def _error(frame: pd.DataFrame, row: Any, column: str, expected: str) -> UserError:
    """An error that names the row and the value."""
    received = reprlib.repr(frame.at[row, column])
    return UserError(
        f"{frame.attrs['source']}: row {row}: {column} is {received}; {expected}"
    )


def read_texts(frame: pd.DataFrame, column: str) -> list[str]:
    """Texts of a column without outer white space.

    Raises:
        UserError: If a value is not text.
    """
    texts = []
    for row, value in frame[column].items():
        if not isinstance(value, str):
            raise _error(frame, row, column, "expected text")
        # JSON can hold half a character, such as "\ud800"; it becomes a question mark.
        texts.append(value.encode(errors="replace").decode().strip())
    return texts


def read_sentences(frame: pd.DataFrame, column: str) -> list[str]:
    """Texts that are not empty, with single spaces inside, as SentEval has them.

    Raises:
        UserError: If a value is not text, or empty.
    """
    texts = [" ".join(text.split()) for text in read_texts(frame, column)]
    if "" in texts:
        row = frame.index[texts.index("")]
        raise _error(frame, row, column, "expected a sentence")
    return texts


def read_numbers(
    frame: pd.DataFrame, column: str, low: float, high: float
) -> list[float]:
    """Finite numbers from ``low`` to ``high``.

    Raises:
        UserError: If a value is not such a number.
    """
    numbers = []
    for row, value in frame[column].items():
        try:
            number = parse_number(str(value))
        except ValueError:
            number = math.nan
        if not low <= number <= high:
            limits = "" if math.isinf(high - low) else f" from {low:g} to {high:g}"
            raise _error(frame, row, column, f"expected a finite number{limits}")
        numbers.append(number)
    return numbers


def read_labels(
    frame: pd.DataFrame, column: str, meaning: Mapping[str, Value]
) -> list[Value]:
    """The meaning of each label.

    Raises:
        UserError: If a label is unknown.
    """
    labels = []
    for row, value in frame[column].items():
        label = str(value).strip().lower()
        if label not in meaning:
            raise _error(frame, row, column, f"expected {choices(meaning, label)}")
        labels.append(meaning[label])
    return labels


def name_labels(values: Sequence[Any], names: Sequence[str]) -> list[Any]:
    """Labels 0, 1, ... of ``datasets`` by their names; other values as they are."""
    return [
        names[value] if isinstance(value, int) and 0 <= value < len(names) else value
        for value in values
    ]


def _read_fields(
    file: BinaryIO, separator: str, quoting: Any = csv.QUOTE_MINIMAL
) -> pd.DataFrame:
    content = io.BytesIO(file.read())
    header = content.readline().decode("utf-8-sig").rstrip("\r\n")
    is_excel = header.startswith("sep=")
    if is_excel:
        separator = header[4:5]
    elif separator not in header:
        separator = next(
            (sign for sign in _FIELD_SEPARATORS if sign in header), separator
        )
    content.seek(0)
    frame = pd.read_csv(
        content,
        sep=separator,
        header=None,  # or names that occur twice would get numbers
        skiprows=int(is_excel),
        dtype=str,
        na_filter=False,
        quoting=quoting,
    )
    names, rows = frame.iloc[0].tolist(), frame.iloc[1:]
    if len(names) > 1:  # an empty cell of the only column is a blank line
        rows = rows[rows.ne("").any(axis=1)]
    return rows.set_axis(names, axis=1)


def _read_jsonl(file: BinaryIO) -> pd.DataFrame:
    records = []
    for number, line in enumerate(file, start=1):
        if line.strip():
            try:
                record = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise ValueError(f"line {number}: {error}") from error
            if not isinstance(record, dict):
                received = reprlib.repr(record)
                raise ValueError(f"line {number}: {received}; expected an object")
            records.append(record)
    return pd.DataFrame(records, dtype=object)


def _read_parquet(file: BinaryIO) -> pd.DataFrame:
    import pyarrow.parquet as pq

    source = pq.ParquetFile(file if file.seekable() else io.BytesIO(file.read()))
    return _from_arrow(source.read(_flat_columns(source.schema_arrow)))


def _read_arrow(file: BinaryIO) -> pd.DataFrame:
    import pyarrow as pa

    content = pa.py_buffer(file.read())
    try:
        table = pa.ipc.open_file(content).read_all()
    except pa.ArrowInvalid:  # as ``datasets`` writes it
        table = pa.ipc.open_stream(content).read_all()
    return _from_arrow(table.select(_flat_columns(table.schema)))


def _flat_columns(schema: Any) -> list[str]:
    """Columns that hold no vectors."""
    import pyarrow as pa

    return [field.name for field in schema if not pa.types.is_nested(field.type)]


def _from_arrow(table: Any) -> pd.DataFrame:
    """The frame of a table; labels that ``datasets`` wrote have their names."""
    columns = table.to_pydict()
    metadata = table.schema.metadata or {}
    info = json.loads(metadata.get(b"huggingface", b"{}")).get("info", {})
    for name, feature in info.get("features", {}).items():
        if name in columns and feature.get("_type") == "ClassLabel":
            columns[name] = name_labels(columns[name], feature["names"])
    return pd.DataFrame(columns, dtype=object)


TABLE_FORMATS: dict[str, Callable[[BinaryIO], pd.DataFrame]] = {
    ".csv": partial(_read_fields, separator=","),
    ".tsv": partial(_read_fields, separator="\t", quoting=csv.QUOTE_NONE),
    ".jsonl": _read_jsonl,
    ".parquet": _read_parquet,
    ".arrow": _read_arrow,
    ".feather": _read_arrow,
}
"""Reader of each extension, of an open file."""

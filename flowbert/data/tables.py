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
from itertools import chain, compress
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import pandas as pd

from flowbert.data.text_files import check_file, extension, open_file
from flowbert.errors import UserError, choices, first_line, nearest, warn
from flowbert.numbers import parse_number

Value = TypeVar("Value")
_FIELD_SEPARATORS = ",;|\t"
_SHOWN = 3  # invalid rows in a message
_LONGEST_FIELD = 1 << 30  # characters; of Python's reader 131,072


def read_frame(path: str | Path, *layouts: Sequence[str]) -> pd.DataFrame:
    r"""Read columns of a table; its name may end in ``.gz`` or ``.zst``.

    A csv file has a header and RFC 4180 quoting; quotes in a tsv file are plain characters (the
    IANA definition, and what NLP data sets do). The separator is the sign of comma, ``;``, ``|``
    and tab that the header has most often, or that of Excel's line ``sep=;`` above it. A jsonl file
    has one object per line. Blank lines are dropped.

    Args:
        path: The file.
        layouts: Lists of columns; the first that the file has is read. Without any: the only
            column.

    Returns:
        A frame of the columns in the order of the layout. Its index is called ``line``, or ``row``
        where a file has no lines, and counts from 1.

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
    others = ", or those that the option columns names"
    if [len(layout) for layout in layouts] != [3]:
        others = ""
    raise UserError(
        f"{path}: has the columns {', '.join(names)}; expected "
        f"{wanted or 'the name of one as column'}{similar}{others}"
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
    chosen = frame[columns]
    if frame.index.name is None:
        chosen = chosen.set_axis(pd.RangeIndex(1, len(frame) + 1, name="row"))
    chosen.attrs["source"] = str(path)
    return chosen


def frame_of_lines(
    path: Path, lines: Sequence[str], names: Sequence[str], columns: Sequence[str]
) -> pd.DataFrame:
    """Columns of lines whose fields are between tabs, as of :func:`read_frame`.

    Args:
        path: File of the lines.
        lines: The lines; blank ones are dropped.
        names: Names of the fields; further fields are ignored.
        columns: The columns that are read.

    Raises:
        UserError: If a line has too few fields; as of :func:`make_frame`.
    """
    rows = [line.split("\t")[: len(names)] for line in lines if line.strip()]
    for number, row in enumerate(rows, start=1):
        if len(row) < len(names):
            raise UserError(
                f"{path}: row {number}: {len(row)} fields; expected {', '.join(names)}"
            )
    return make_frame(path, pd.DataFrame(rows, columns=list(names)), [columns])


def read_columns(
    frame: pd.DataFrame,
    parsers: Mapping[str, Callable[[Any], Any]],
    skip: bool | None = None,
) -> list[list[Any]]:
    """Values of columns, a list for each.

    Args:
        frame: Rows as of :func:`read_frame`.
        parsers: For each column a function from a cell to its value; it raises a ValueError that
            says what is expected.
        skip: Leave out invalid rows with a warning; None where this is not offered.

    Raises:
        UserError: If rows are invalid: their number, and cells of the first three.
    """
    columns: list[list[Any]] = []
    wrong: dict[Any, str] = {}
    for name, parse in parsers.items():
        columns.append([])
        for row, cell in frame[name].items():
            try:
                columns[-1].append(parse(cell))
            except ValueError as error:
                columns[-1].append(None)
                text = f"{name} is {reprlib.repr(cell)}; expected {error}"
                wrong.setdefault(row, f"{frame.index.name} {row}: {text}")
    if not wrong:
        return columns
    shown = ", ".join(wrong[row] for row in sorted(wrong)[:_SHOWN])
    if len(wrong) > _SHOWN:
        shown += f", and {len(wrong) - _SHOWN} more"
    source = frame.attrs["source"]
    if not skip:
        count = f"{len(wrong)} of {len(frame)} rows are invalid: "
        count = count if len(wrong) > 1 else ""
        hint = "" if skip is None else " (the option skip_invalid leaves such rows out)"
        raise UserError(f"{source}: {count}{shown}{hint}")
    warn(
        f"{source}: {len(wrong)} of {len(frame)} rows are invalid and left out: {shown}"
    )
    valid = [row not in wrong for row in frame.index]
    return [list(compress(column, valid)) for column in columns]


def as_text(cell: Any) -> str:
    """A text without outer white space."""
    if not isinstance(cell, str):
        raise ValueError("text")
    # JSON can hold half a character, such as "\ud800"; it becomes a question mark.
    return cell.encode(errors="replace").decode().strip()


def as_sentence(cell: Any) -> str:
    """A text that is not empty, with single spaces inside, as SentEval has them."""
    text = " ".join(as_text(cell).split())
    if not text:
        raise ValueError("a sentence")
    return text


def as_number(low: float, high: float) -> Callable[[Any], float]:
    """Parser of finite numbers from ``low`` to ``high``."""

    def parse(cell: Any) -> float:
        try:
            number = parse_number(str(cell))
        except ValueError:
            number = math.nan
        if not low <= number <= high:
            limits = "" if math.isinf(high - low) else f" from {low:g} to {high:g}"
            raise ValueError(f"a finite number{limits}")
        return number

    return parse


def as_label(meaning: Mapping[str, Value]) -> Callable[[Any], Value]:
    """Parser of labels."""

    def parse(cell: Any) -> Value:
        label = str(cell).strip().lower()
        if label not in meaning:
            raise ValueError(choices(meaning, label))
        return meaning[label]

    return parse


def read_texts(frame: pd.DataFrame, column: str | None = None) -> list[str]:
    """Texts of a column, by default the only one, without outer white space.

    Raises:
        UserError: If a value is not text.
    """
    return read_columns(frame, {column or frame.columns[0]: as_text})[0]


def read_sentences(frame: pd.DataFrame, column: str) -> list[str]:
    """Texts that are not empty, with single spaces inside, as SentEval has them.

    Raises:
        UserError: If a value is not text, or empty.
    """
    return read_columns(frame, {column: as_sentence})[0]


def _read_fields(
    file: BinaryIO, separator: str, quoting: Any = csv.QUOTE_MINIMAL
) -> pd.DataFrame:
    lines = io.StringIO(file.read().decode("utf-8-sig"), newline="")
    header = lines.readline()
    is_excel = header.startswith("sep=")
    separator = max((separator, *_FIELD_SEPARATORS), key=header.count)
    if is_excel:
        separator = header[4:5]
    csv.field_size_limit(_LONGEST_FIELD)
    reader = csv.reader(
        chain([header], lines), delimiter=separator, quoting=quoting, strict=True
    )
    rows: dict[int, list[str]] = {}
    line = 1
    try:
        for row in reader:
            if any(map(str.strip, row)) or len(row) == 1:  # or a blank sentence
                rows[line] = row
            line = reader.line_num + 1
    except csv.Error as error:
        hint = "a quotation mark within a quoted field is written twice"
        raise ValueError(f"line {line}: {error}; {hint}") from error
    if is_excel:
        del rows[1]
    if not rows:
        raise ValueError("it is empty")
    names = rows.pop(min(rows))
    size = len(names)
    # All fields of a row that has too many are shown where one is read.
    cells = [
        row + [""] * (size - len(row)) if len(row) <= size else [row] * size
        for row in rows.values()
    ]
    return pd.DataFrame(cells, pd.Index(rows, name="line"), names, dtype=object)


def _read_jsonl(file: BinaryIO) -> pd.DataFrame:
    records = {}
    for number, line in enumerate(file, start=1):
        if line.strip():
            try:
                records[number] = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise ValueError(f"line {number}: {error}") from error
            if not isinstance(records[number], dict):
                received = reprlib.repr(records[number])
                raise ValueError(f"line {number}: {received}; expected an object")
    index = pd.Index(records, name="line")
    return pd.DataFrame(list(records.values()), index, dtype=object)


def _read_parquet(file: BinaryIO) -> pd.DataFrame:
    import pyarrow.parquet as pq

    source = pq.ParquetFile(file if file.seekable() else io.BytesIO(file.read()))
    return from_arrow(source.read(_flat_columns(source.schema_arrow)))


def _read_arrow(file: BinaryIO) -> pd.DataFrame:
    import pyarrow as pa

    content = pa.py_buffer(file.read())
    try:
        table = pa.ipc.open_file(content).read_all()
    except pa.ArrowInvalid:  # as ``datasets`` writes it
        table = pa.ipc.open_stream(content).read_all()
    return from_arrow(table.select(_flat_columns(table.schema)))


def _flat_columns(schema: Any) -> list[str]:
    """Columns that hold no vectors."""
    import pyarrow as pa

    return [field.name for field in schema if not pa.types.is_nested(field.type)]


def from_arrow(table: Any) -> pd.DataFrame:
    """The frame of a table; labels that ``datasets`` wrote have their names."""
    columns = table.to_pydict()
    metadata = table.schema.metadata or {}
    info = json.loads(metadata.get(b"huggingface", b"{}")).get("info", {})
    for name, feature in info.get("features", {}).items():
        if name in columns and feature.get("_type") == "ClassLabel":
            labels = dict(enumerate(feature["names"]))
            columns[name] = [labels.get(value, value) for value in columns[name]]
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

"""Readers of tables: csv, tsv, jsonl and parquet; errors name file and row.

To add a format, write a function that reads a frame from an open file and add it to
``TABLE_FORMATS``; for a compression see :mod:`flowbert.data.text_files`.
"""

import csv
import io
import json
import math
import re
import reprlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import pandas as pd

from flowbert.data.text_files import check_file, extension, open_bytes, user_path
from flowbert.errors import UserError, choices, first_line, nearest, warn
from flowbert.numbers import parse_number

_FIELD_SEPARATORS = ",;|\t"
_QUOTED = re.compile(r'"[^"]*"')
_LONGEST_HEADER = 100_000  # characters
_SHOWN = 3  # invalid rows in a message


def read_frame(
    path: str | Path, *layouts: Sequence[str], argument: str | None = None
) -> pd.DataFrame:
    r"""Read columns of a table; its name may end in ``.gz`` or ``.zst``.

    A csv file has a header and RFC 4180 quoting; quotes in a tsv file are plain characters (the
    IANA definition, and what NLP data sets do). The separator is the most frequent of comma, ``;``,
    ``|`` and tab in the header, outside of quotes, or is named by Excel's line ``sep=;`` above it.
    A jsonl file has one object per line. Blank lines are dropped, except in a csv or tsv file of
    one column, where they are blank sentences.

    Args:
        path: The file.
        layouts: Lists of columns; the first list that the file has is read. Without a list, the
            file must have one column, which is read.
        argument: Name of the argument that names the columns, for the message.

    Returns:
        A frame of the columns in the order of the layout. Its index counts from 1 and is called
        ``line``, or ``row`` if the format has no lines; a row of a csv file counts as one line,
        even if a field contains line breaks.

    Raises:
        UserError: If the file is missing, damaged, of another format, or lacks the columns.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "pairs.csv"
        >>> _ = path.write_text('a,b\n"one, two",3\n')
        >>> read_texts(read_frame(path, ["a"]), "a")
        ['one, two']
    """
    path = user_path(path)
    suffix = extension(path)
    if suffix not in TABLE_FORMATS:
        raise UserError(
            f"{path}: received {path.suffix!r}; expected {choices(TABLE_FORMATS, path.suffix)}"
        )
    check_file(path)
    try:
        with open_bytes(path) as file:
            frame = TABLE_FORMATS[suffix](file)
    # pandas, pyarrow and json raise unrelated types.
    except Exception as error:
        raise UserError(
            f"{path}: not {suffix[1:]}, damaged, or not UTF-8 ({first_line(error)})"
        ) from error
    names = list(frame)
    # A name with spaces is a sentence: the header is missing.
    if not layouts and len(names) == 1 and len(str(names[0]).split()) > 1:
        raise UserError(
            f"{path}: its first line, the name of its column, is {reprlib.repr(names[0])}; "
            "expected a header, or this name given as the column"
        )
    return make_frame(path, frame, layouts, argument)


def is_table(name: str | Path) -> bool:
    """Whether a file name ends like that of a table.

    Example:
        >>> is_table("data/pairs.tsv.gz"), is_table("data/lines.txt"), is_table("STSB")
        (True, False, False)
    """
    return extension(name) in TABLE_FORMATS


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
        argument: Name of the argument that names the columns, which the message suggests.

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
    hint = f"; try {','.join(names[: len(layouts[0])])}" if argument else ""
    raise UserError(
        f"{path}: has the columns {', '.join(names)}; expected "
        f"{wanted or 'the name of one as column'}{similar}{hint}",
        argument=argument,
    )


def make_frame(
    path: Path,
    frame: pd.DataFrame,
    layouts: Sequence[Sequence[str]],
    argument: str | None = None,
) -> pd.DataFrame:
    """Choose columns of a frame, as :func:`read_frame` does.

    Args:
        path: File or folder of the rows.
        frame: All columns.
        layouts: As in :func:`choose_columns`.
        argument: As in :func:`choose_columns`.

    Raises:
        UserError: If there is no row, no layout fits, or a chosen column occurs twice.
    """
    if not len(frame):
        raise UserError(f"{path}: has no row")
    names = list(map(str, frame))
    columns = list(choose_columns(names, layouts, path, argument))
    chosen = frame.set_axis(names, axis=1)[columns]
    for name in columns:
        if (count := names.count(name)) > 1:
            raise UserError(f"{path}: has {count} columns {name!r}; expected one")
    if frame.index.name is None:
        chosen = chosen.set_axis(pd.RangeIndex(1, len(frame) + 1, name="row"))
    chosen.attrs["source"] = str(path)
    return chosen


def frame_of_lines(
    path: Path, lines: Sequence[str], names: Sequence[str], columns: Sequence[str]
) -> pd.DataFrame:
    """Split lines at tabs into columns, as :func:`read_frame` does.

    Args:
        path: File of the lines.
        lines: The lines; blank ones are dropped, and fields that a line lacks are NaN.
        names: Names of the fields; further fields are ignored.
        columns: The columns that are read.

    Raises:
        UserError: As in :func:`make_frame`.
    """
    fields = (line.split("\t") for line in lines if line.strip())
    rows = [dict(zip(names, row, strict=False)) for row in fields]
    return make_frame(path, pd.DataFrame(rows, columns=list(names)), [columns])


def read_columns(
    frame: pd.DataFrame,
    parsers: Mapping[str, Callable[[Any], Any]],
    skip: bool | None = None,
) -> list[list[Any]]:
    """Parse columns; returns a list of values for each.

    Args:
        frame: Rows, as returned by :func:`read_frame`.
        parsers: For each column a function from a cell to its value; it raises a ValueError that
            says what is expected.
        skip: Leave out invalid rows with a warning. None to raise an error that does not mention
            this option.

    Raises:
        UserError: If rows are invalid; with their number, and cells of the first three.
    """
    rows: list[list[Any]] = []
    wrong: list[str] = []
    cells = frame[list(parsers)].itertuples(index=False, name=None)
    for label, row in zip(frame.index, cells, strict=True):
        values = []
        for (name, parse), cell in zip(parsers.items(), row, strict=True):
            try:
                values.append(parse(cell))
            except ValueError as error:
                text = f"{name} is {reprlib.repr(cell)}; expected {error}"
                wrong.append(f"{frame.index.name} {label}: {text}")
                break
        else:
            rows.append(values)
    if wrong:
        shown = ", ".join(wrong[:_SHOWN])
        if len(wrong) > _SHOWN:
            shown += f", and {len(wrong) - _SHOWN} more"
        source = frame.attrs["source"]
        count = f"{len(wrong)} of {len(frame)} rows are invalid"
        if not skip:
            hint = "" if skip is None else " (the option skip_invalid leaves them out)"
            if len(wrong) > 1:
                shown = f"{count}: {shown}"
            raise UserError(f"{source}: {shown}{hint}")
        warn(f"{source}: {count} and left out: {shown}")
    return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in parsers]


def as_text(cell: Any) -> str:
    """Strip white space at both ends of a text."""
    if not isinstance(cell, str):
        raise ValueError("text")
    # JSON can hold half a character, such as "\ud800"; it becomes a question mark.
    return cell.encode(errors="replace").decode().strip()


def as_sentence(cell: Any) -> str:
    """Reduce white space to single spaces, as SentEval does; the text must not be empty."""
    text = " ".join(as_text(cell).split())
    if not text:
        raise ValueError("a sentence")
    return text


def as_number(low: float, high: float, decimal: str = ".") -> Callable[[Any], float]:
    """Make a parser of finite numbers from ``low`` to ``high``.

    Args:
        low: Lowest number.
        high: Highest number.
        decimal: Decimal sign, which a point replaces.
    """

    def parse(cell: Any) -> float:
        try:
            number = parse_number(str(cell).replace(decimal, "."))
        except ValueError:
            number = math.nan
        if not low <= number <= high:
            limits = "" if math.isinf(high - low) else f" from {low:g} to {high:g}"
            raise ValueError(f"a finite number{limits}")
        return number

    return parse


def as_label(meaning: Mapping[str, Any]) -> Callable[[Any], Any]:
    """Make a parser of labels.

    Args:
        meaning: Value of each label.
    """

    def parse(cell: Any) -> Any:
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
    text = file.read().decode("utf-8-sig")
    first, _, following = text.partition("\n")
    is_excel = first.startswith("sep=")
    if is_excel:
        separator, text = first[4:5], following
    else:
        separator = _find_separator(text, separator)
    cells = pd.read_csv(
        io.StringIO(text, newline=""),
        sep=separator,
        quoting=quoting,
        header=None,  # pandas renames columns that occur twice
        dtype=object,  # texts as they are
        keep_default_na=False,
        skip_blank_lines=False,
    ).fillna("")
    cells.index = pd.RangeIndex(1, len(cells) + 1, name="line") + is_excel
    names = cells.iloc[0].str.strip()
    frame = cells[1:].set_axis(list(names), axis="columns")
    if len(cells.columns) > 1:
        frame = frame[(frame.map(str.strip) != "").any(axis="columns")]
    if separator in ";\t":
        frame.attrs["decimal"] = ","
    return frame


def _find_separator(text: str, default: str) -> str:
    """Find the most frequent separator of the header, outside of quotes."""
    header, *_ = _QUOTED.sub("", text[:_LONGEST_HEADER]).split("\n", 1)
    separator: str = max(default, *_FIELD_SEPARATORS, key=header.count)
    return separator


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
    """Read the columns that hold no vectors."""
    import pyarrow.parquet as pq
    from pyarrow import types

    source = pq.ParquetFile(file if file.seekable() else io.BytesIO(file.read()))
    fields = source.schema_arrow
    names = [field.name for field in fields if not types.is_nested(field.type)]
    return from_arrow(source.read(names))


def from_arrow(table: Any) -> pd.DataFrame:
    """Make a frame of a pyarrow table; label indices that ``datasets`` wrote become names."""
    metadata = table.schema.metadata or {}
    info = json.loads(metadata.get(b"huggingface", b"{}")).get("info", {})
    features = info.get("features", {})
    columns: list[list[Any]] = []  # two may have one name
    for name, column in zip(table.column_names, table.columns, strict=True):
        feature, values = features.get(name, {}), column.to_pylist()
        if feature.get("_type") == "ClassLabel":
            labels = dict(enumerate(feature["names"]))
            values = [labels.get(value, value) for value in values]
        columns.append(values)
    frame = pd.DataFrame(dict(enumerate(columns)), dtype=object)
    return frame.set_axis(table.column_names, axis="columns")


TABLE_FORMATS: dict[str, Callable[[BinaryIO], pd.DataFrame]] = {
    ".csv": partial(_read_fields, separator=","),
    ".tsv": partial(_read_fields, separator="\t", quoting=csv.QUOTE_NONE),
    ".jsonl": _read_jsonl,
    ".parquet": _read_parquet,
}
"""Function that reads an open file, by extension."""

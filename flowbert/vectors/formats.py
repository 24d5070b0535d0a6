"""Files of vectors by format, opened as one kind of matrix.

A new format is one function here, from a path and the name of a column to a :class:`Matrix`, and its entry in
:data:`FORMATS`.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
import numpy.typing as npt

from flowbert.data.files import check_file
from flowbert.errors import UserError, choices
from flowbert.vectors.manifest import open_parts
from flowbert.vectors.matrix import BLOCK_ROWS, ListMatrix, MappedMatrix, Matrix, Pieces, check_matrix

_BFLOAT16 = "BF16"
_SAFETENSORS = {  # name in the file -> numpy's; bfloat16 is read as its bits
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    _BFLOAT16: "<u2",
    "I8": "i1",
    "U8": "u1",
    "I16": "<i2",
    "U16": "<u2",
}
_LONGEST_HEADER = 100_000_000  # bytes, as safetensors has it


def open_matrix(path: str | Path, column: str | None = None) -> Matrix:
    """Open a file of vectors; its ending decides how it is read.

    Args:
        path: The file.
        column: Column of the lists, or name of the tensor; may be left out where there is only one.

    Raises:
        UserError: If it is missing or damaged, its ending is unknown, or it does not hold rows of numbers.
    """
    path = Path(path).expanduser()
    if path.suffix.lower() not in FORMATS:
        raise UserError(f"{path}: unknown extension {path.suffix!r}; allowed for vectors: {', '.join(FORMATS)}")
    check_file(path)
    return FORMATS[path.suffix.lower()](path, column)


def _npy(path: Path, column: str | None) -> Matrix:
    if column is not None:
        raise UserError(f"column: received {column!r}; {path} has no columns; allowed: none")

    def mapped() -> npt.NDArray[Any]:
        try:
            found: npt.NDArray[Any] = np.lib.format.open_memmap(path, mode="r")
        except (ValueError, TypeError, OverflowError, TokenError, OSError) as error:
            raise UserError(f"{path}: not a .npy file of numbers, or damaged ({error})") from error
        return found

    found = mapped()
    check_matrix(found.dtype.name, found.shape, str(path))
    return MappedMatrix(mapped)


def _safetensors(path: Path, column: str | None) -> Matrix:
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            content = json.loads(file.read(min(length, _LONGEST_HEADER)))
        entries = {name: entry for name, entry in content.items() if name != "__metadata__"}
        name = _choose(list(entries), column, str(path), "tensor")
        kind, shape, (begin, _) = (entries[name][key] for key in ("dtype", "shape", "data_offsets"))
        begin, shape = int(begin), [int(number) for number in shape]
    except UserError:
        raise
    except (ValueError, AttributeError, TypeError, KeyError, RecursionError) as error:
        raise UserError(f"{path}: not a safetensors file, or damaged (its header is not readable)") from error
    dtype = _SAFETENSORS.get(kind, "")
    check_matrix(np.dtype(dtype).name if dtype else kind, shape, f"{path}: {name}")

    def mapped() -> npt.NDArray[Any]:
        try:
            return np.memmap(path, dtype, "r", 8 + length + begin, tuple(shape))
        except (ValueError, OverflowError, OSError) as error:
            raise UserError(f"{path}: damaged or cut short ({error})") from error

    return MappedMatrix(mapped, bfloat16=kind == _BFLOAT16)


def _parquet(path: Path, column: str | None) -> Matrix:
    import pyarrow.parquet

    file = _arrow_call(path, partial(pyarrow.parquet.ParquetFile, path))
    name = _arrow_call(path, lambda: _list_column(path, file.schema_arrow, column))
    sizes = [file.metadata.row_group(number).num_rows for number in range(file.metadata.num_row_groups)]
    file.close()

    def pieces(wanted: Sequence[bool] | None) -> Iterator[tuple[int, Any]]:
        # Read page by page: a row group may hold the whole file.
        reading = partial(pyarrow.parquet.ParquetFile, path, pre_buffer=False, buffer_size=1 << 20)
        with _arrow_call(path, reading) as opened:
            start = 0
            for group, size in enumerate(sizes):
                first, start = start, start + size
                if wanted is None or wanted[group]:
                    batches = opened.iter_batches(batch_size=BLOCK_ROWS, row_groups=[group], columns=[name])
                    for batch in _arrow_items(path, batches):
                        yield first, batch.column(0)
                        first += len(batch)

    return _list_matrix(path, name, sizes, pieces)


def _arrow(path: Path, column: str | None) -> Matrix:
    import pyarrow

    def batches(open_: Any, column: int | None = None, wanted: Sequence[bool] | None = None) -> Iterator[Any]:
        """Number and content of the record batches of a file or stream; only what is wanted is read of a file."""
        options = pyarrow.ipc.IpcReadOptions(included_fields=None if column is None else [column])
        with open_(str(path)) as source:
            try:
                reader = pyarrow.ipc.open_file(source, options=options)
            except pyarrow.ArrowInvalid:
                source.seek(0)
                stream = enumerate(pyarrow.ipc.open_stream(source, options=options))
                yield from ((number, batch) for number, batch in stream if wanted is None or wanted[number])
                return
            for number in range(reader.num_record_batches):
                if wanted is None or wanted[number]:
                    yield number, reader.get_batch(number)

    _, first = next(_arrow_items(path, batches(pyarrow.memory_map)), (0, None))
    if first is None:
        raise UserError(f"{path}: holds no row; allowed: at least one")
    name = _arrow_call(path, lambda: _list_column(path, first.schema, column))
    place = first.schema.get_field_index(name)
    # Counting reads nothing of a mapped file; a pass over it would keep all of it mapped.
    sizes = [len(batch) for _, batch in _arrow_items(path, batches(pyarrow.memory_map, place))]
    starts = np.cumsum([0, *sizes])

    def pieces(wanted: Sequence[bool] | None) -> Iterator[tuple[int, Any]]:
        for number, batch in _arrow_items(path, batches(pyarrow.OSFile, place, wanted)):
            _arrow_call(path, partial(batch.validate, full=True))  # pyarrow ends the process at damaged offsets
            for first in range(0, len(batch), BLOCK_ROWS):
                yield int(starts[number]) + first, batch.column(0).slice(first, BLOCK_ROWS)

    return _list_matrix(path, name, sizes, pieces)


FORMATS: dict[str, Callable[[Path, str | None], Matrix]] = {
    ".npy": _npy,
    ".safetensors": _safetensors,
    ".parquet": _parquet,
    ".arrow": _arrow,
    ".feather": _arrow,
    ".json": open_parts,
}
"""Ending -> how a file is opened."""


def _choose(names: Sequence[str], wanted: str | None, where: str, what: str) -> str:
    """The column or tensor that is asked for, or the only one.

    Raises:
        UserError: If there is none, or several and none is named.
    """
    if wanted is not None and wanted not in names:
        raise UserError(f"{where}: no {what} {wanted!r}; {choices(names, wanted)}")
    if wanted is None and len(names) != 1:
        several = f"received no column; {choices(names, '')}"
        raise UserError(f"{where}: {several if names else f'no {what}'}")
    return names[0] if wanted is None else wanted


def _list_matrix(path: Path, name: str, sizes: Sequence[int], pieces: Pieces) -> Matrix:
    matrix = ListMatrix(f"{path}: column {name!r}", sizes, pieces)
    check_matrix("float32", matrix.shape, f"{path}: column {name!r}")
    return matrix


def _list_column(path: Path, schema: Any, column: str | None) -> str:
    from pyarrow import types

    lists = (types.is_list, types.is_large_list, types.is_fixed_size_list)
    found = [field.name for field in schema if any(is_list(field.type) for is_list in lists)]
    if column is not None and column in schema.names and column not in found:
        raise UserError(f"{path}: column {column!r} holds {schema.field(column).type}; allowed: lists of numbers")
    name = _choose(found, column, str(path), "column of lists")
    kind = str(schema.field(name).type.value_type)
    kind = {"halffloat": "float16", "float": "float32", "double": "float64"}.get(kind, kind)
    check_matrix(kind, (1, 1), f"{path}: column {name!r}")
    return name


def _arrow_call(path: Path, call: Callable[[], Any]) -> Any:
    import pyarrow

    try:
        return call()
    except (pyarrow.ArrowException, UnicodeDecodeError, OSError) as error:
        raise UserError(f"{path}: not a {path.suffix} file, or damaged ({str(error).splitlines()[0]})") from error


def _arrow_items(path: Path, items: Iterable[Any]) -> Iterator[Any]:
    """Items of an iterator of pyarrow, whose errors are ours."""
    iterator = iter(items)
    while (item := _arrow_call(path, lambda: next(iterator, None))) is not None:
        yield item

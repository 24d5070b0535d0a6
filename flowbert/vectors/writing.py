"""Vectors written as they come, block by block, in the format of the file's ending."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from flowbert.errors import UserError
from flowbert.io.atomic import written_atomically
from flowbert.io.digest import canonical_json, tensor_bytes

Block = npt.NDArray[Any]
Write = Callable[[Block], object]
_NAME = "embedding"
_TEXTS = "sentence"
_SAFETENSORS = {"float32": "F32", "int8": "I8", "uint8": "U8"}


def write_vectors(
    path: str | Path, blocks: Iterable[Block], shape: tuple[int, int], dtype: str, texts: Sequence[str] | None = None
) -> None:
    """Write rows as they come; the file is there when it is whole.

    Args:
        path: The file: .npy, .safetensors (one tensor ``embedding``), .parquet, .arrow or .feather (a column of lists
            ``embedding``).
        blocks: Blocks of rows, ``(n, k)``, N in all.
        shape: N and k.
        dtype: Of the blocks: float32, int8 or uint8.
        texts: Sentence of each row: a column ``sentence`` of the formats that have columns.

    Raises:
        UserError: If the ending is unknown.
    """
    path = Path(path)
    if path.suffix not in WRITABLE:
        raise UserError(f"output: received {str(path)!r}; allowed: a file ending in {', '.join(WRITABLE)}")
    with written_atomically(path) as temporary, WRITABLE[path.suffix](temporary, shape, dtype, texts) as write:
        for block in blocks:
            write(np.ascontiguousarray(block))


@contextmanager
def _npy(path: Path, shape: tuple[int, int], dtype: str, _: Sequence[str] | None) -> Iterator[Write]:
    header = {"descr": np.dtype(dtype).newbyteorder("<").str, "fortran_order": False, "shape": shape}
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        yield lambda block: file.write(tensor_bytes(block))


@contextmanager
def _safetensors(path: Path, shape: tuple[int, int], dtype: str, _: Sequence[str] | None) -> Iterator[Write]:
    size = shape[0] * shape[1] * np.dtype(dtype).itemsize
    entry = {"dtype": _SAFETENSORS[dtype], "shape": list(shape), "data_offsets": [0, size]}
    header = canonical_json({_NAME: entry}).encode()
    header += b" " * (-len(header) % 8)
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        yield lambda block: file.write(tensor_bytes(block))


@contextmanager
def _parquet(path: Path, shape: tuple[int, int], dtype: str, texts: Sequence[str] | None) -> Iterator[Write]:
    import pyarrow.parquet

    schema = _schema(dtype, texts)
    # Floats have no repetitions that a dictionary would save.
    with pyarrow.parquet.ParquetWriter(path, schema, use_dictionary=False) as file:
        yield _batches(schema, shape[1], texts, file.write_batch)


@contextmanager
def _arrow(path: Path, shape: tuple[int, int], dtype: str, texts: Sequence[str] | None) -> Iterator[Write]:
    import pyarrow

    schema = _schema(dtype, texts)
    with pyarrow.OSFile(str(path), "wb") as sink, pyarrow.ipc.new_file(sink, schema) as file:
        yield _batches(schema, shape[1], texts, file.write_batch)


def _schema(dtype: str, texts: Sequence[str] | None) -> Any:
    import pyarrow

    lists = (_NAME, pyarrow.list_(pyarrow.from_numpy_dtype(dtype)))
    return pyarrow.schema([lists] if texts is None else [(_TEXTS, pyarrow.string()), lists])


def _batches(schema: Any, dim: int, texts: Sequence[str] | None, write_batch: Callable[[Any], None]) -> Write:
    import pyarrow

    done = 0

    def write(block: Block) -> None:
        nonlocal done
        ends = np.arange(0, block.size + 1, dim, dtype=np.int32)
        columns = [pyarrow.ListArray.from_arrays(ends, pyarrow.array(block.reshape(-1)))]
        if texts is not None:
            columns.insert(0, pyarrow.array(texts[done : done + len(block)], pyarrow.string()))
        write_batch(pyarrow.record_batch(columns, schema=schema))
        done += len(block)

    return write


WRITABLE: dict[str, Callable[[Path, tuple[int, int], str, Sequence[str] | None], AbstractContextManager[Write]]] = {
    ".npy": _npy,
    ".safetensors": _safetensors,
    ".parquet": _parquet,
    ".arrow": _arrow,
    ".feather": _arrow,
}
"""Ending -> how a file is written."""

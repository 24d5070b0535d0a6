"""Readers of files of vectors: .npy, .safetensors and .parquet."""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from flowbert.arrays import BLOCK_ROWS, VECTOR_VALUES
from flowbert.data.text_files import check_file, user_path
from flowbert.errors import UserError, choices, first_line
from flowbert.vectors.write import PARQUET_COLUMN

_BUFFER = 2**20  # bytes of a file that are read at once


def read_vectors(path: str | Path, column: str | None = None) -> Any:
    """Map the vectors of a file into memory, so that only used rows are read.

    The vectors of .parquet files are first copied into a temporary file.

    Args:
        path: A .npy, .safetensors or .parquet file, or a folder of .parquet files, sorted by name.
        column: Name of a tensor or a column of lists; required if there are several.

    Returns:
        A memory-mapped array or tensor.

    Raises:
        UserError: If the file is missing or damaged, or contains no vectors.
    """
    file = user_path(path)
    suffix = ".parquet" if file.is_dir() else file.suffix
    if suffix not in _READERS:
        allowed = choices(_READERS, suffix)
        raise UserError(f"{path}: received {suffix!r}; expected {allowed}")
    if not file.is_dir():
        check_file(file)
    try:
        return _READERS[suffix](file, column)
    except UserError:
        raise
    # numpy, safetensors and pyarrow raise unrelated types for a file that they cannot read.
    except Exception as error:
        reason = f"not a readable {suffix} file ({first_line(error)})"
        raise UserError(f"{path}: {reason}") from error


def other_columns(path: str | Path, column: str | None = None) -> Any:
    """Columns of .parquet files other than the vectors, such as ids.

    Args:
        path: As in :func:`read_vectors`.
        column: Column of the vectors.

    Returns:
        A pyarrow table in memory, without a column ``embedding``, which the written vectors
        replace. None for other files, or if no other column exists.
    """
    import pyarrow.dataset

    file = user_path(path)
    if not file.is_dir() and file.suffix != ".parquet":
        return None
    table = pyarrow.dataset.dataset(_parquet_files(file), format="parquet")
    vectors = _vector_column(table.schema, column, file), PARQUET_COLUMN
    names = [name for name in table.schema.names if name not in vectors]
    return table.to_table(columns=names) if names else None


def _read_safetensors(path: Path, column: str | None) -> Any:
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        return file.get_tensor(_choose(list(file.keys()), column, path))


def _read_parquet(path: Path, column: str | None) -> Any:
    """Copy the vectors into a temporary file, and map it: ``(N, D)``, float32."""
    from pyarrow.compute import list_value_length
    from pyarrow.parquet import ParquetFile

    count, sizes = 0, set[int | None]()
    with tempfile.TemporaryFile() as copy:
        for name in _parquet_files(path):
            with ParquetFile(name, pre_buffer=False, buffer_size=_BUFFER) as file:
                column = _vector_column(file.schema_arrow, column, Path(name))
                # A scan would read whole groups of rows ahead, and a file may be one group.
                batches = file.iter_batches(
                    BLOCK_ROWS, columns=[column], use_threads=False
                )
                for batch in batches:
                    count += len(batch)
                    sizes.update(list_value_length(batch[0]).unique().to_pylist())
                    values = batch[0].flatten().to_numpy(zero_copy_only=False)
                    copy.write(values.astype(np.float32).tobytes())
        if len(sizes) != 1 or None in sizes:
            message = f"{path}: {count} rows of the sizes {list(sizes)}; expected one"
            raise UserError(message)
        copy.flush()
        shape: Any = count, *sizes
        return np.memmap(copy, np.float32, "r", shape=shape)


def _parquet_files(path: Path) -> list[str]:
    return sorted(map(str, path.rglob("*.parquet"))) if path.is_dir() else [str(path)]


def _vector_column(schema: Any, wanted: str | None, path: Path) -> str:
    """Choose among the columns with lists of numbers of two bytes or more."""
    names = [field.name for field in schema if _holds_vectors(field.type)]
    return _choose(names, wanted, path)


def _holds_vectors(kind: Any) -> bool:
    from pyarrow import types

    is_list = (types.is_list, types.is_large_list, types.is_fixed_size_list)
    if not any(test(kind) for test in is_list):
        return False
    inner = kind.value_type
    is_number = types.is_floating(inner) or types.is_integer(inner)
    return bool(is_number and inner.bit_width > 8)


def _choose(names: Sequence[str], wanted: str | None, path: Path) -> str:
    if not names:
        raise UserError(f"{path}: holds no vectors; expected lists of {VECTOR_VALUES}")
    if wanted is None and len(names) == 1:
        return names[0]
    if wanted is None or wanted not in names:
        raise UserError(
            f"received {wanted!r} for {path}; expected {choices(names, wanted or '')}",
            argument="column",
        )
    return wanted


_READERS: dict[str, Callable[[Path, str | None], Any]] = {
    ".npy": lambda path, _: np.load(path, mmap_mode="r", allow_pickle=False),
    ".safetensors": _read_safetensors,
    ".parquet": _read_parquet,
}

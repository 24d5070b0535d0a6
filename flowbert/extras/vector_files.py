"""Files of vectors: .npy, .safetensors and .parquet, read block by block."""

import tempfile
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from flowbert.arrays import (
    BLOCK_ROWS,
    VECTOR_VALUES,
    Floats,
    Indices,
    holds_vector_values,
)
from flowbert.data.text_files import sort_names, user_path
from flowbert.errors import UserError, choices
from flowbert.io import release_pages
from flowbert.vectors.base import Vectors
from flowbert.vectors.write import PARQUET_COLUMN, VECTOR_FORMATS

_BUFFER = 2**20  # bytes of a file that are read at once


class VectorFile(Vectors):
    """Vectors in a file; only the rows that are read are in memory.

    Args:
        path: A .npy, .safetensors or .parquet file, or a folder of .parquet files, sorted by name
            with numbers in numeric order.
        column: Tensor or column of lists; needed where there are several.

    Raises:
        UserError: If the file is missing, damaged, or holds no matrix of numbers.
    """

    def __init__(self, path: str | Path, column: str | None = None) -> None:
        self.path = user_path(path)
        self.name = self.path.name
        self.column = column
        suffix = ".parquet" if self.path.is_dir() else self.path.suffix
        if suffix not in VECTOR_FORMATS:
            raise UserError(
                f"{path}: received {suffix!r}; expected {choices(VECTOR_FORMATS, suffix)}"
            )
        if not self.path.exists():
            raise UserError(f"{path}: no such file")
        self._is_parquet = suffix == ".parquet"
        try:
            shape = self._parquet_shape() if self._is_parquet else self._map().shape
        except UserError:
            raise
        # numpy, safetensors and pyarrow raise unrelated types for a file that they cannot read.
        except Exception as error:
            raise UserError(
                f"{path}: not a readable {suffix} file ({error})"
            ) from error
        if len(shape) != 2 or 0 in shape:
            raise UserError(f"{path}: has the shape {shape}; expected (N, D)")
        self.shape = int(shape[0]), int(shape[1])

    def __getstate__(self) -> dict[str, Any]:
        """Attributes without open files, which are opened again when they are used."""
        opened = ("_rows", "_dataset")
        return {name: x for name, x in vars(self).items() if name not in opened}

    def take(self, indices: Indices) -> Floats:
        """A copy of some rows, ``(n, D)``, float32.

        Rows of parquet are copied into a temporary file at the first call.
        """
        chosen = self._checked(self._rows[indices])
        release_pages(self._rows)
        return chosen

    def blocks(self) -> Iterator[Floats]:
        """All rows in order, in blocks ``(n, D)``, float32."""
        return self._parquet_blocks() if self._is_parquet else super().blocks()

    def _checked(self, values: Any) -> Floats:
        if isinstance(values, Tensor):  # numpy has no bfloat16
            values = values.float().numpy()
        with np.errstate(over="ignore"):
            rows = np.array(values, dtype=np.float32)
        if not np.isfinite(rows).all():
            raise UserError(
                f"{self.path}: holds NaN or infinite values; expected finite numbers"
            )
        return rows

    @cached_property
    def _rows(self) -> Any:
        if not self._is_parquet:
            return self._map()
        with tempfile.TemporaryFile() as file:
            for block in self.blocks():
                file.write(block.tobytes())
            file.flush()
            return np.memmap(file, np.float32, "r", shape=self.shape)

    def _map(self) -> Any:
        if self.path.suffix == ".npy":
            values = np.load(self.path, mmap_mode="r", allow_pickle=False)
        else:
            from safetensors import safe_open

            with safe_open(self.path, framework="pt") as file:
                name = _choose(list(file.keys()), self.column, self.path)
                values = file.get_tensor(name)  # mapped into memory
        if not holds_vector_values(values.dtype):
            raise UserError(
                f"{self.path}: holds {values.dtype}; expected {VECTOR_VALUES}"
            )
        return values

    @cached_property
    def _dataset(self) -> Any:
        import pyarrow.dataset

        found = pyarrow.dataset.dataset(self.path, format="parquet")
        return pyarrow.dataset.dataset(sort_names(found.files), format="parquet")

    @cached_property
    def _name(self) -> str:
        fields = self._dataset.schema
        names = [field.name for field in fields if _holds_vectors(field.type)]
        return _choose(names, self.column, self.path)

    def other_columns(self) -> Any:
        """Columns of .parquet files other than the vectors, such as ids: a table of pyarrow.

        The whole table is in memory, without a column ``embedding``, whose place the written
        vectors take. None if there are no other columns.
        """
        if not self._is_parquet:
            return None
        vectors = self._name, PARQUET_COLUMN
        names = [name for name in self._dataset.schema.names if name not in vectors]
        return self._dataset.to_table(columns=names) if names else None

    def _parquet_shape(self) -> tuple[int, int]:
        batches = self._batches(1)
        dim = next((len(batch[0][0].as_py() or ()) for batch in batches), 0)
        return self._dataset.count_rows(), dim

    def _parquet_blocks(self) -> Iterator[Floats]:
        dim = self.shape[1]
        for batch in self._batches():
            kind = batch[0].type
            if not _holds_vectors(kind):
                raise UserError(
                    f"{self.path}: holds {kind}; expected lists of {VECTOR_VALUES}"
                )
            values = batch[0].flatten()
            if batch[0].null_count or len(values) != dim * len(batch):
                raise UserError(
                    f"{self.path}: a row has another size than {dim}, that of the first"
                )
            rows = values.to_numpy(zero_copy_only=False)
            yield self._checked(rows.reshape(-1, dim))

    def _batches(self, size: int = BLOCK_ROWS) -> Iterator[Any]:
        """Record batches of the vectors in order, few rows at a time.

        A scan of the dataset would read whole groups of rows ahead, and a file may be one group.
        """
        from pyarrow.parquet import ParquetFile

        for name in self._dataset.files:
            with ParquetFile(name, pre_buffer=False, buffer_size=_BUFFER) as file:
                if self._name not in file.schema_arrow.names:
                    raise UserError(f"{name}: lacks the column {self._name!r}")
                columns = [self._name]
                batches = file.iter_batches(size, columns=columns, use_threads=False)
                yield from filter(len, batches)


def _holds_vectors(kind: Any) -> bool:
    """Whether a type of pyarrow is a list of numbers of two bytes or more."""
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

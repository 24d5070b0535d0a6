"""Rows of vectors in memory or on a disk: arrays, files, and subsets of rows."""

from collections.abc import Iterator
from functools import cached_property
from itertools import chain
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
from flowbert.errors import UserError
from flowbert.io import digest_stream, release_pages
from flowbert.registry import import_object
from flowbert.seeding import Stream


class Vectors:
    """N vectors of size D, in memory or in a file of which only the used rows are read.

    All functions of flowbert that take vectors accept this class, and so does a PyTorch DataLoader.
    :func:`as_vectors` makes it of an array, a tensor or a file.

    Args:
        rows: Numbers ``(N, D)``: an array, also a memory-mapped one, a tensor, or other vectors;
            not copied.
        name: Name in tables and messages.
        indices: Indices ``(n,)`` of the rows that are used; None for all.

    Attributes:
        shape: ``(N, D)``.
        name: Name in tables and messages.
    """

    def __init__(
        self, rows: Any, name: str = "vectors", indices: Indices | None = None
    ) -> None:
        self._rows = rows
        self._indices = indices
        self.name = name
        number = len(rows if indices is None else indices)
        self.shape = number, int(rows.shape[1])

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> Floats:
        """Copy the rows of a slice, of indices or of a mask ``(N,)``: ``(n, D)``, float32.

        Raises:
            UserError: If a value is not finite.
        """
        if isinstance(index, slice):
            index = np.arange(*index.indices(len(self)))
        chosen = np.asarray(index)
        if chosen.dtype != bool:
            chosen = chosen.astype(np.int64)
        if self._indices is not None:
            chosen = self._indices[chosen]
        rows: Any = self._rows[chosen]
        if isinstance(rows, Tensor):  # numpy has no bfloat16
            rows = rows.float().numpy()
        with np.errstate(over="ignore"):
            values: Floats = rows.astype(np.float32, copy=False)
        release_pages(self._rows)
        if not np.isfinite(values).all():
            raise UserError(
                f"{self.name}: received NaN or infinite values; expected finite ones"
            )
        return values

    def __getitems__(self, indices: list[int]) -> Floats:
        """Rows of a batch of a DataLoader."""
        return self[indices]

    def blocks(self) -> Iterator[Floats]:
        """All rows in order, in blocks ``(n, D)``, float32."""
        for start in range(0, len(self), BLOCK_ROWS):
            yield self[start : start + BLOCK_ROWS]

    @cached_property
    def digest(self) -> str:
        """Digest of shape and values; a file has the digest of an array with its rows."""
        values = (block.tobytes() for block in self.blocks())
        return digest_stream(chain([list(self.shape)], values))

    def subset(self, indices: Indices) -> "Vectors":
        """The rows of indices or of a mask ``(N,)``, which are read when they are used."""
        return Vectors(self, self.name, np.arange(len(self))[indices])

    def sample(self, size: int, stream: Stream) -> Indices:
        """Indices of at most ``size`` rows, drawn without replacement."""
        return stream.rng().permutation(len(self))[:size]

    def count_distinct(self, limit: int) -> int:
        """Number of distinct rows, counted up to a limit."""
        distinct: set[bytes] = set()
        for block in self.blocks():
            distinct.update(row.tobytes() for row in block)
            if len(distinct) >= limit:
                return limit
        return len(distinct)


def as_vectors(vectors: Any, column: str | None = None) -> Vectors:
    """Vectors of a file, an array or a tensor; ``Vectors`` are returned unchanged.

    Args:
        vectors: Path of a .npy, .safetensors or .parquet file or of a folder of .parquet files,
            array or tensor ``(N, D)``, or :class:`Vectors`.
        column: Name of a tensor or column of the file; required if there are several.

    Raises:
        UserError: If a file is missing or damaged, or the vectors are not a matrix of numbers.
            Reading rows checks that the numbers are finite.
    """
    if isinstance(vectors, Vectors):
        return vectors
    name = "vectors"
    if isinstance(vectors, str | Path):
        name = Path(vectors).name
        read = import_object("flowbert.extras.vector_files.read_vectors")
        vectors = read(vectors, column)
    if isinstance(vectors, Tensor):
        rows: Any = vectors.detach().cpu()
    else:
        rows = np.asanyarray(vectors)  # keeps the type of memory-mapped arrays
    if rows.ndim != 2 or 0 in rows.shape or not holds_vector_values(rows.dtype):
        raise UserError(
            f"{name}: received {rows.dtype} of shape {tuple(rows.shape)}; expected (N, D) "
            f"{VECTOR_VALUES}"
        )
    return Vectors(rows, name)

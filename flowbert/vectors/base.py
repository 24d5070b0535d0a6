"""The protocol ``Vectors``: rows that may be on a disk; arrays, and subsets of rows."""

from abc import ABC, abstractmethod
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


class Vectors(ABC):
    """N vectors of size D; only the rows that are read need to fit in memory.

    A subclass sets :attr:`shape` and defines :meth:`take`. All functions of this package that read
    vectors accept one, and so does a PyTorch DataLoader.

    Attributes:
        shape: ``(N, D)``.
        name: Name in tables and messages.
    """

    shape: tuple[int, int]
    name: str = "vectors"

    @abstractmethod
    def take(self, indices: Indices) -> Floats:
        """A copy of some rows, ``(n, D)``, float32."""

    def blocks(self) -> Iterator[Floats]:
        """All rows in order, in blocks ``(n, D)``, float32."""
        for start in range(0, len(self), BLOCK_ROWS):
            yield self[start : start + BLOCK_ROWS]

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> Floats:
        """Rows of a slice or of an array of indices, ``(n, D)``, float32."""
        if isinstance(index, slice):
            index = np.arange(*index.indices(len(self)))
        return self.take(np.asarray(index, dtype=np.int64))

    def __getitems__(self, indices: list[int]) -> Floats:
        """Rows of a batch of a DataLoader."""
        return self[indices]

    @cached_property
    def digest(self) -> str:
        """Digest of shape and values; the same for an array and for a file with its rows."""
        values = (block.tobytes() for block in self.blocks())
        return digest_stream(chain([list(self.shape)], values))

    def subset(self, indices: Indices) -> "Vectors":
        """Some of the rows, read when they are used."""
        return _Subset(self, indices)

    def sample(self, size: int, stream: Stream) -> Indices:
        """Indices of at most ``size`` rows, drawn without replacement."""
        return stream.rng().permutation(len(self))[:size]

    def other_columns(self) -> Any:
        """Other columns of the file, such as ids: a table of pyarrow, or None."""
        return None

    def count_distinct(self, limit: int) -> int:
        """Number of distinct rows, counted up to a limit."""
        distinct: set[bytes] = set()
        for block in self.blocks():
            distinct.update(row.tobytes() for row in block)
            if len(distinct) >= limit:
                return limit
        return len(distinct)


class VectorArray(Vectors):
    """Vectors in memory, or in a memory-mapped array.

    Args:
        rows: Finite numbers ``(N, D)``; they are not copied.
    """

    def __init__(self, rows: Floats) -> None:
        self._rows = rows
        self.shape = int(rows.shape[0]), int(rows.shape[1])

    def take(self, indices: Indices) -> Floats:
        """A copy of some rows, ``(n, D)``, float32."""
        with np.errstate(over="ignore"):
            rows = self._rows[indices].astype(np.float32, copy=False)
        release_pages(self._rows)
        return rows


class _Subset(Vectors):
    """A subset of rows.

    Args:
        vectors: All rows.
        indices: Indices of the subset, ``(n,)``.
    """

    def __init__(self, vectors: Vectors, indices: Indices) -> None:
        self._vectors = vectors
        self._indices = indices
        self.name = vectors.name
        self.shape = len(indices), vectors.shape[1]

    def take(self, indices: Indices) -> Floats:
        """A copy of some rows, ``(n, D)``, float32."""
        return self._vectors.take(self._indices[indices])


def as_vectors(vectors: Any, column: str | None = None) -> Vectors:
    """Vectors of a file, an array or a tensor; ``Vectors`` are returned unchanged.

    Args:
        vectors: Path, array or tensor ``(N, D)``, or :class:`Vectors`.
        column: Tensor or column of a file; only needed where there are several.

    Raises:
        UserError: If they are no matrix of finite numbers.
    """
    if isinstance(vectors, str | Path):
        opened = import_object("flowbert.extras.vector_files.VectorFile")
        return opened(vectors, column)  # type: ignore[no-any-return]
    if isinstance(vectors, Vectors):
        return vectors
    if isinstance(vectors, Tensor):
        vectors = vectors.detach().cpu()
        # numpy has no bfloat16.
        vectors = vectors.float() if vectors.is_floating_point() else vectors
    rows = np.asarray(vectors)
    if rows.ndim != 2 or 0 in rows.shape or not holds_vector_values(rows.dtype):
        raise UserError(
            f"received {rows.dtype} of shape {rows.shape}; expected (N, D) {VECTOR_VALUES}",
            argument="vectors",
        )
    array = VectorArray(rows)
    if not all(np.isfinite(block).all() for block in array.blocks()):
        raise UserError(
            "received NaN or infinite values; expected finite ones", argument="vectors"
        )
    return array

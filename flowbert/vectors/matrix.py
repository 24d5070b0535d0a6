"""Rows of numbers that are read by block or by number, never all in memory."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from flowbert.errors import UserError

Floats = npt.NDArray[np.float32]
Rows = npt.NDArray[np.int64]
Open = Callable[[], npt.NDArray[Any]]
Pieces = Callable[[Sequence[bool] | None], Iterator[tuple[int, Any]]]
"""From which chunks are wanted, None for all, to arrays of lists in order, each with the number of its first row."""

BLOCK_ROWS = 8192
_BLOCK_VALUES = 1 << 23  # 32 MiB of float32
_NUMBERS = ("float16", "float32", "float64", "int8", "uint8", "int16", "uint16")
_ALLOWED = "float32, float16, bfloat16, float64 (rounded), and integers of 8 or 16 bits, as numbers"


class Matrix(ABC):
    """N vectors of size D in a file or array.

    Attributes:
        shape: N and D.
        by_number: Whether single rows are found fast; else whole blocks are read for them.
        digest: Digest of the rows, where it is known without reading them.
    """

    shape: tuple[int, int]
    by_number: bool
    digest: str | None = None

    @abstractmethod
    def blocks(self) -> Iterator[tuple[int, Floats]]:
        """All rows in order, with the number of the first row of each block."""

    @abstractmethod
    def take(self, rows: Rows) -> Floats:
        """Some rows, ``(n, D)``, in the order given."""


class MappedMatrix(Matrix):
    """Rows that lie one after another: an array in memory, or a file mapped anew for each block.

    A mapping that stayed open would keep every page it has seen in the memory of the process.

    Args:
        open_: Gives the array, ``(N, D)``.
        bfloat16: Whether its numbers are the bits of bfloat16.
    """

    by_number = True

    def __init__(self, open_: Open, *, bfloat16: bool = False) -> None:
        self._open, self._bfloat16 = open_, bfloat16
        rows, dim = open_().shape
        self.shape = (int(rows), int(dim))

    def blocks(self) -> Iterator[tuple[int, Floats]]:
        """All rows in order."""
        size = block_rows(self.shape[1])
        for start in range(0, self.shape[0], size):
            yield start, self._floats(self._open()[start : start + size])

    def take(self, rows: Rows) -> Floats:
        """Some rows; only these are read."""
        return self._floats(self._open()[rows])

    def _floats(self, found: npt.NDArray[Any]) -> Floats:
        if self._bfloat16:  # the upper half of a float32
            return (found.astype(np.uint32) << 16).view(np.float32)
        return as_float32(found)


class ListMatrix(Matrix):
    """Rows that are lists of Arrow, in chunks (row groups, record batches) that are read whole or not at all.

    Args:
        name: File and column, for messages.
        sizes: Rows of each chunk.
        pieces: Gives their arrays.
    """

    by_number = False

    def __init__(self, name: str, sizes: Sequence[int], pieces: Pieces) -> None:
        self._name, self._sizes, self._pieces = name, sizes, pieces
        first = next((len(scalar.as_py()) for _, piece in pieces(None) for scalar in piece if scalar.is_valid), 0)
        self.shape = (sum(sizes), first)

    def blocks(self) -> Iterator[tuple[int, Floats]]:
        """All rows in order."""
        for start, piece in self._pieces(None):
            yield start, self._floats(start, piece)

    def take(self, rows: Rows) -> Floats:
        """Some rows; the chunks that hold them are read once each."""
        order = np.argsort(rows, kind="stable")
        wanted, ends = rows[order], np.cumsum(self._sizes)
        chunks = set(np.searchsorted(ends, wanted, side="right").tolist())
        result = np.empty((len(rows), self.shape[1]), dtype=np.float32)
        for start, piece in self._pieces([number in chunks for number in range(len(ends))]):
            low, high = np.searchsorted(wanted, [start, start + len(piece)])
            if low < high:
                result[order[low:high]] = self._floats(start, piece)[wanted[low:high] - start]
        return result

    def _floats(self, start: int, piece: Any) -> Floats:
        import pyarrow.compute

        lengths = pyarrow.compute.list_value_length(piece).fill_null(-1).to_numpy(zero_copy_only=False)
        dim = self.shape[1]
        ragged = np.flatnonzero(lengths != dim)
        if ragged.size:
            length = int(lengths[ragged[0]])
            received = "null" if length < 0 else f"a list of {length} numbers"
            raise UserError(f"{self._name}: row {start + ragged[0]} is {received}; allowed: {dim}, as in the first row")
        return as_float32(piece.flatten().to_numpy(zero_copy_only=False)).reshape(-1, dim)


def block_rows(dim: int) -> int:
    """Rows that are read at once."""
    return max(1, min(BLOCK_ROWS, _BLOCK_VALUES // max(dim, 1)))


def as_float32(found: npt.NDArray[Any]) -> Floats:
    """A copy of the numbers in float32, in the machine's byte order, row after row."""
    with np.errstate(over="ignore"):  # a float64 beyond float32 becomes infinite, and is refused as that
        return np.array(found, dtype=np.float32, order="C")


def check_matrix(dtype: str, shape: Sequence[int], name: str) -> None:
    """Refuse what is no matrix of numbers.

    Raises:
        UserError: If it has not two dimensions, no row or column, or its numbers are none that are allowed.
    """
    if len(shape) != 2:
        raise UserError(f"{name}: has {len(shape)} dimensions, {tuple(shape)}; allowed: 2, a row for each vector")
    if 0 in shape:
        raise UserError(f"{name}: holds {shape[0]} rows of {shape[1]} numbers; allowed: at least one of one")
    if dtype not in _NUMBERS:
        raise UserError(f"{name}: holds {dtype}; allowed: {_ALLOWED}")

"""Vectors from elsewhere as an encoder: its sentences are row numbers, so that tasks, maps and reports take them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from flowbert.data.corpus import Corpus
from flowbert.errors import UserError
from flowbert.io.digest import digest_bytes, digest_json, running_digest, tensor_bytes
from flowbert.progress import progress
from flowbert.seeding import Stream
from flowbert.vectors.formats import open_matrix
from flowbert.vectors.matrix import Floats, MappedMatrix, Matrix, check_matrix

Vectors = str | Path | npt.NDArray[Any]
"""A file of vectors, or an array ``(N, D)``."""


class VectorTable:
    """N vectors of size D from a file or array, read by block or by row number, never all in memory.

    It stands where a frozen encoder does: a sentence is a row number as text, ``"0"`` for the first row. Numbers are
    float32 from here on; a row with NaN or infinite values is an error wherever it is met.

    Args:
        matrix: The rows.
        name: The file, or what else tables call them.
        column: Column or tensor of the file that was named.

    Example:
        >>> table = VectorTable.open(np.arange(6.0).reshape(3, 2))
        >>> len(table), table.dim, table.encode(["2", "0"]).tolist()
        (3, 2, [[4.0, 5.0], [0.0, 1.0]])
    """

    needs_counts: ClassVar[bool] = False  # what an encoder of tokens may need
    counts: ClassVar[None] = None

    def __init__(self, matrix: Matrix, name: str, column: str | None = None) -> None:
        self.matrix, self.name, self.column = matrix, name, column
        self._digest = matrix.digest

    @classmethod
    def open(cls, vectors: "Vectors | VectorTable", column: str | None = None) -> "VectorTable":
        """Open a file (.npy, .safetensors, .parquet, .arrow, .feather) or take an array; a table stays as it is.

        Args:
            vectors: The file, an array ``(N, D)`` in memory or mapped, or a table.
            column: Column of lists, or name of the tensor; may be left out where there is only one.

        Raises:
            UserError: If there is no such file, or it does not hold rows of numbers of one size.
        """
        if isinstance(vectors, VectorTable):
            return vectors
        if isinstance(vectors, str | Path):
            return cls(open_matrix(vectors, column), str(vectors), column)
        array = np.asarray(vectors)
        check_matrix(array.dtype.name, array.shape, "vectors")
        return cls(MappedMatrix(lambda: array), "array")

    def __len__(self) -> int:
        return self.matrix.shape[0]

    @property
    def dim(self) -> int:
        """Size D of the vectors."""
        return self.matrix.shape[1]

    @property
    def needs_no_pass(self) -> bool:
        """Whether single rows are found fast, and the digest is there without a pass over all of them."""
        return self.matrix.by_number and self.matrix.digest is not None

    # ------------------------------------------------------------------ rows

    def blocks(self) -> Iterator[tuple[int, Floats]]:
        """All rows in order, with the number of the first row of each block; whoever goes to the end has the digest.

        Raises:
            UserError: At the first row that holds NaN or infinity, or has another size.
        """
        digest = running_digest()
        for start, block in self.matrix.blocks():
            self._check(block, start)
            if self._digest is None:
                digest.update(tensor_bytes(block))
            yield start, block
        self._digest = self._digest or digest.hexdigest()

    def _read(self, what: str) -> Iterator[tuple[int, Floats]]:
        """All rows as :meth:`blocks` gives them, with progress."""
        with progress(len(self), what, "vectors") as step:
            for start, block in self.blocks():
                yield start, block
                step.done = start + len(block)

    def take(self, rows: npt.ArrayLike) -> Floats:
        """Some rows in the order given, ``(n, D)``, which are in memory then.

        Raises:
            UserError: If one of them holds NaN or infinity.
        """
        wanted = np.asarray(rows, dtype=np.int64).reshape(-1)
        found = self.matrix.take(wanted)
        self._check(found, wanted)
        return found

    def _check(self, block: Floats, rows: int | npt.NDArray[np.int64]) -> None:
        if np.isfinite(block.sum(dtype=np.float64)):  # one pass and no copy; float64 holds any sum of float32
            return
        bad = np.flatnonzero(~np.isfinite(block).all(axis=1))
        row = rows + bad[0] if isinstance(rows, int) else rows[bad].min()
        raise UserError(f"{self.name}: row {row} holds NaN or infinite values; allowed: finite numbers")

    def by_number(self) -> "VectorTable":
        """The same rows where each is found fast: these, or a copy in a temporary file that goes with the process."""
        if self.matrix.by_number:
            return self
        with TemporaryFile() as file:
            for _, block in self._read("Copying vectors"):
                file.write(tensor_bytes(block))
            file.flush()
            mapped = np.memmap(file, np.float32, "r", 0, self.matrix.shape)  # which outlives the file's name
        found = VectorTable(MappedMatrix(lambda: mapped), self.name, self.column)
        found._digest = self._digest
        return found

    # --------------------------------------------------------- as an encoder

    def encode(self, sentences: Sequence[str], *, on_batch: Callable[[int], Any] | None = None) -> Floats:
        """Vectors of row numbers, ``(n, D)``.

        Raises:
            UserError: If one is no row number.
        """
        found = self.take(np.array([self.row(text) for text in sentences], dtype=np.int64))
        if on_batch is not None:
            on_batch(len(sentences))
        return found

    def row(self, text: str) -> int:
        """The row number that a text is.

        Raises:
            UserError: If it is none.
        """
        if not (text.isascii() and text.isdigit() and int(text) < len(self)):
            raise UserError(f"{self.name}: received row {text!r}; allowed: 0 to {len(self) - 1}")
        return int(text)

    @property
    def digest(self) -> str:
        """Digest of the numbers as float32, whatever the format of the file."""
        if self._digest is None:
            for _ in self._read("Reading vectors"):
                pass
        assert self._digest is not None
        return self._digest

    def key(self) -> dict[str, Any]:
        """Identity of the vectors: equal keys, equal vectors."""
        return {"table": self.digest, "dim": self.dim, "rows": len(self)}

    def describe(self) -> dict[str, Any]:
        """Where they are."""
        return {"path": self.name, "column": self.column}

    def to(self, device: torch.device | str) -> Self:
        """Nothing is computed here, on whatever device."""
        del device
        return self


@dataclass(frozen=True, eq=False)
class VectorCorpus(Corpus):
    """All rows of a table, or some, to fit on: read block by block, and never sentences.

    Args:
        table: The rows.
        chosen: Numbers of the rows that are fitted on, rising; None for all.
    """

    table: VectorTable = field(kw_only=True)
    chosen: npt.NDArray[np.int64] | None = field(default=None, kw_only=True)

    @classmethod
    def all_of(cls, name: str, table: VectorTable) -> "VectorCorpus":
        """All rows of a table."""
        return cls(name, (), 0, 0, table.digest, table=table)

    def sample(self, size: int, seed: int) -> "VectorCorpus":
        """At most ``size`` rows, drawn without replacement by ``seed``."""
        if size >= len(self):
            return self
        chosen = np.sort(Stream(seed, "subset").rng().permutation(len(self.table))[:size])
        return replace(self, digest=digest_json([self.digest, digest_bytes(tensor_bytes(chosen))]), chosen=chosen)

    def blocks(self) -> Iterator[Tensor]:
        """The rows, block by block, ``(n, D)``."""
        for start, block in self.table.blocks():
            if self.chosen is not None:
                low, high = np.searchsorted(self.chosen, [start, start + len(block)])
                block = block[self.chosen[low:high] - start]
            yield torch.from_numpy(block)

    def __len__(self) -> int:
        return len(self.table) if self.chosen is None else len(self.chosen)

"""Vectors of one encoder by sentence: in memory, or in two files that processes share."""

import os
import sqlite3
import warnings
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
import xxhash

from flowbert.arrays import Floats, Indices
from flowbert.errors import FlowbertWarning
from flowbert.vectors.owners import Owner

KEY_BYTES = 16
"""Size of the digest by which a sentence is found."""

_BUSY_SECONDS = 60.0  # a transaction takes milliseconds
# What sqlite reports of an index that it can read; all else means that the file is damaged.
_NOT_DAMAGED = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_PROTOCOL,
    sqlite3.SQLITE_READONLY,
}
_TABLES = (
    "CREATE TABLE IF NOT EXISTS blocks "
    "(number INTEGER PRIMARY KEY AUTOINCREMENT, start INTEGER, keys BLOB, checksum BLOB)",
    "CREATE TABLE IF NOT EXISTS claims (start INTEGER, keys BLOB, owner BLOB)",
)

Returned = TypeVar("Returned")


class Claim(NamedTuple):
    """Sentences that this process encodes, and no other meanwhile.

    Args:
        keys: Digests of the sentences.
        start: First of the rows that are reserved for their vectors.
        owners: Other processes that encode some of the sentences asked for.
    """

    keys: list[bytes]
    start: int = 0
    owners: frozenset[str] = frozenset()


class Store(Protocol):
    """Vectors of size D by the digests of their sentences."""

    dim: int

    def find(self, keys: Sequence[bytes]) -> Indices:
        """Row of each sentence, ``(N,)``; -1 where there is none."""

    def take(self, rows: Indices) -> Floats:
        """A copy of some rows, ``(n, D)``, float32."""

    def claim(self, keys: Sequence[bytes], owner: Owner) -> Claim:
        """Those of the sentences that are missing and that no other process encodes."""

    def publish(self, claim: Claim, vectors: Floats) -> None:
        """Keep the vectors of claimed sentences, ``(n, D)``."""


class MemoryStore:
    """A store of this process alone.

    Args:
        dim: Size D of a vector.
    """

    def __init__(self, dim: int) -> None:
        self.dim = dim
        self._rows: dict[bytes, int] = {}
        self._values: Floats = np.empty((0, dim), dtype=np.float32)

    def find(self, keys: Sequence[bytes]) -> Indices:
        """Row of each sentence, ``(N,)``; -1 where there is none."""
        return np.array([self._rows.get(key, -1) for key in keys], dtype=np.int64)

    def take(self, rows: Indices) -> Floats:
        """A copy of some rows, ``(n, D)``, float32."""
        return self._values[rows]

    def claim(self, keys: Sequence[bytes], owner: Owner | None) -> Claim:
        """Those of the sentences that are missing."""
        return Claim([key for key in keys if key not in self._rows], len(self._rows))

    def publish(self, claim: Claim, vectors: Floats) -> None:
        """Keep the vectors of claimed sentences, ``(n, D)``."""
        start, end = claim.start, claim.start + len(claim.keys)
        if end > len(self._values):
            # Twice the size: each row is copied about once, however many are added at a time.
            larger = np.empty((max(end, 2 * start), self.dim), dtype=np.float32)
            larger[:start] = self._values[:start]
            self._values = larger
        self._values[start:end] = vectors
        self._rows.update(zip(claim.keys, range(start, end), strict=True))


class _Block(NamedTuple):
    """Rows that were written together."""

    number: int
    start: int
    keys: bytes
    checksum: bytes

    @property
    def end(self) -> int:
        return self.start + len(self.keys) // KEY_BYTES


class FileStore:
    """A store in two files: ``rows.f32``, and ``index.sqlite``, which says whose the rows are.

    A process claims sentences in the index, which reserves rows for them; it encodes, writes the
    rows, and publishes them in the index as a block with a checksum. The index is locked for
    milliseconds, so that processes wait only for sentences that another one has claimed. Claims of
    a process that was killed are void, and what it wrote is never read. The checksum of a block is
    compared when one of its sentences is first looked up; those of a damaged block are missing.

    Args:
        folder: Folder of the files, which need not exist; its name enters the checksums.
        dim: Size D of a vector.
    """

    def __init__(self, folder: Path, dim: int) -> None:
        self.dim = dim
        self._folder = folder
        self._index = folder / "index.sqlite"
        self._file = folder / "rows.f32"
        self._forget()
        # An empty one is being made by another process.
        if self._index.exists() and self._index.stat().st_size:
            self._run(self._read_new, writes=False)

    def _forget(self) -> None:
        self._rows: dict[bytes, int] = {}
        self._blocks: list[_Block] = []  # by start
        self._starts: list[int] = []
        self._checked: set[int] = set()  # starts of intact blocks
        self._damaged: list[int] = []  # numbers of blocks to delete
        self._last = 0  # number of the last block that was read from the index

    def find(self, keys: Sequence[bytes]) -> Indices:
        """Row of each sentence in an intact block, ``(N,)``; -1 where there is none."""
        rows = np.array([self._rows.get(key, -1) for key in keys], dtype=np.int64)
        blocks = np.searchsorted(self._starts, rows, side="right") - 1
        found = [(i, self._blocks[i]) for i in np.unique(blocks[rows >= 0]).tolist()]
        for i, block in found:
            if block.start not in self._checked and not self._is_intact(block):
                rows[blocks == i] = -1
        return rows

    def take(self, rows: Indices) -> Floats:
        """A copy of some rows, ``(n, D)``, float32.

        Raises:
            OSError: If the file has become shorter.
        """
        values = np.empty((len(rows), self.dim), dtype=np.float32)
        size = self.dim * 4
        if not len(rows):
            return values
        # Of a memory map all pages around a row would come into memory, too.
        with self._file.open("rb", buffering=0) as file:
            for target, row in zip(values, rows.tolist(), strict=True):
                if os.preadv(file.fileno(), [target.data], row * size) != size:
                    raise OSError(f"{self._file}: row {row} is missing")
        return values

    def claim(self, keys: Sequence[bytes], owner: Owner) -> Claim:
        """Those of the sentences that are missing and that no other process encodes."""
        self._folder.mkdir(parents=True, exist_ok=True)

        def claim(index: sqlite3.Connection) -> Claim:
            self._read_new(index)
            self._delete_damaged(index)
            missing = [key for key in keys if key not in self._rows]
            claimed = self._claimed(index, owner)
            free = [key for key in missing if key not in claimed]
            others = frozenset(claimed[key] for key in missing if key in claimed)
            if not free:
                return Claim([], 0, others)
            start = self._reserve(len(free))
            values = start, b"".join(free), owner.name.encode()
            index.execute("INSERT INTO claims VALUES (?, ?, ?)", values)
            return Claim(free, start, others)

        return self._run(claim)

    def publish(self, claim: Claim, vectors: Floats) -> None:
        """Keep the vectors of claimed sentences, ``(n, D)``."""
        values = np.ascontiguousarray(vectors, dtype=np.float32)
        with self._file.open("r+b") as file:
            file.seek(claim.start * self.dim * 4)
            file.write(values.data)
            file.flush()
            os.fsync(file.fileno())
        keys = b"".join(claim.keys)
        block = claim.start, keys, self._checksum(keys, values)
        insertion = "INSERT INTO blocks (start, keys, checksum) VALUES (?, ?, ?)"

        def publish(index: sqlite3.Connection) -> None:
            index.execute("DELETE FROM claims WHERE start = ?", (claim.start,))
            index.execute(insertion, block)
            self._read_new(index)

        self._run(publish)
        self._checked.add(claim.start)

    # ------------------------------------------------------------------------ the index

    def _run(
        self, action: Callable[[sqlite3.Connection], Returned], writes: bool = True
    ) -> Returned:
        """Use the index, to write in a transaction; a damaged one is set aside."""
        try:
            # A connection for each: none may cross a fork.
            with closing(sqlite3.connect(self._index, timeout=_BUSY_SECONDS)) as index:
                index.isolation_level = None
                index.text_factory = bytes  # damaged text may be no UTF-8
                if writes:
                    index.execute("PRAGMA synchronous = NORMAL")
                    index.execute("PRAGMA journal_mode = PERSIST")
                    index.execute("BEGIN IMMEDIATE")
                    for table in _TABLES:
                        index.execute(table)
                result = action(index)
                if writes:
                    index.execute("COMMIT")
                return result
        # UnicodeDecodeError: of a message that quotes what is damaged.
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
            if code & 0xFF in _NOT_DAMAGED:
                raise
            self._set_aside(error)
        return self._run(action)

    def _set_aside(self, error: Exception) -> None:
        self._forget()
        damaged = self._index.with_name("index.damaged")
        with suppress(FileNotFoundError):  # another process has done it
            os.replace(self._index, damaged)
        _warn(f"{damaged}: set aside, all sentences are encoded again ({error})")

    def _read_new(self, index: sqlite3.Connection) -> None:
        """Read the blocks that were published since the last time."""
        query = "SELECT number, start, keys, checksum FROM blocks WHERE number > ?"
        for number, *values in index.execute(query, (self._last,)).fetchall():
            self._last = max(self._last, number)
            if list(map(type, values)) != [int, bytes, bytes] or values[0] < 0:
                _warn(f"{self._index}: block {number} is damaged and ignored")
                self._damaged.append(number)
                continue
            block = _Block(number, *values)
            place = bisect_left(self._starts, block.start)
            self._starts.insert(place, block.start)
            self._blocks.insert(place, block)
            rows = range(block.start, block.end)
            self._rows.update(zip(_split(block.keys), rows, strict=False))

    def _delete_damaged(self, index: sqlite3.Connection) -> None:
        numbers = [(number,) for number in self._damaged]
        index.executemany("DELETE FROM blocks WHERE number = ?", numbers)
        self._damaged = []

    def _claimed(self, index: sqlite3.Connection, owner: Owner) -> dict[bytes, str]:
        """Owner of each sentence that a living process encodes; other claims are deleted."""
        living = {name.encode(): name for name in owner.living()}
        claimed: dict[bytes, str] = {}
        claims = index.execute("SELECT rowid, keys, owner FROM claims").fetchall()
        for number, keys, name in claims:
            if name in living and isinstance(keys, bytes):
                claimed.update(dict.fromkeys(_split(keys), living[name]))
            else:
                index.execute("DELETE FROM claims WHERE rowid = ?", (number,))
        return claimed

    # -------------------------------------------------------------------------- the rows

    def _count_rows(self) -> int:
        return self._file.stat().st_size // (self.dim * 4)

    def _reserve(self, count: int) -> int:
        """Make room for rows at the end of the file, which takes no space; the first of them."""
        size = self.dim * 4
        with self._file.open("ab") as file:
            start = -(-file.tell() // size)
            file.truncate((start + count) * size)
        return start

    def _checksum(self, keys: bytes, values: Floats) -> bytes:
        """Checksum of a block of this encoder (XXH3, 128 bits: at the speed of memory)."""
        state = xxhash.xxh3_128(self._folder.name.encode())
        state.update(keys)
        state.update(values.data)
        return state.digest()

    def _is_intact(self, block: _Block) -> bool:
        """Compare the checksum of a block; the sentences of a damaged one are forgotten."""
        values: Floats = np.empty((0, self.dim), dtype=np.float32)
        if self._file.is_file() and block.end <= self._count_rows():
            count, offset = block.end - block.start, block.start * self.dim * 4
            values = np.fromfile(
                self._file, np.float32, count * self.dim, offset=offset
            )
        if self._checksum(block.keys, values) == block.checksum:
            self._checked.add(block.start)
            return True
        _warn(
            f"{self._file}: rows {block.start} to {block.end - 1} are damaged, or of another "
            "encoder; their sentences are encoded again"
        )
        place = self._blocks.index(block)
        del self._blocks[place], self._starts[place]
        self._damaged.append(block.number)
        rows = range(block.start, block.end)
        self._rows = {key: row for key, row in self._rows.items() if row not in rows}
        return False


def _split(keys: bytes) -> Iterator[bytes]:
    for start in range(0, len(keys), KEY_BYTES):
        yield keys[start : start + KEY_BYTES]


def _warn(message: str) -> None:
    warnings.warn(message, FlowbertWarning, stacklevel=2)

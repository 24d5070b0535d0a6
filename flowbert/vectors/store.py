"""Vectors of one encoder by sentence: an SQLite table in a file, or in memory."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from filelock import FileLock, Timeout

from flowbert.arrays import Floats
from flowbert.errors import warn

KEY_BYTES = 16
"""Size of the digest by which a sentence is found."""

WARN_AFTER_SECONDS = 5.0
"""Seconds before a warning names the lock that is waited for."""

_BUSY_SECONDS = 60.0  # a transaction takes milliseconds
_KEYS_AT_ONCE = 8192
_PAGE_BYTES = 16384  # a quarter of pages of 4 KB would stay empty
_AGAIN = "their sentences are encoded again"
_TABLE = "CREATE TABLE IF NOT EXISTS vectors (key BLOB UNIQUE, row BLOB, checksum BLOB)"
# What SQLite reports of a damaged file.
_DAMAGED = {
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_ERROR,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_TOOBIG,
}


class Store:
    """Vectors of size D by the digests of their sentences.

    The checksum of a row is compared when the row is read. Damaged rows are deleted with a warning,
    and so is a file that SQLite cannot read; their vectors are missing from then on.

    Args:
        folder: Folder of the file, which need not exist; None for a store in memory.
        name: Digest of the encoder, hexadecimal; names the file, and enters the checksums.
        dim: Size D of a vector.
    """

    def __init__(self, folder: Path | None, name: str, dim: int) -> None:
        self.name = name
        self.dim = dim
        self._seed = int(name[:16], 16)
        self._path = None if folder is None else folder / f"{name}.sqlite"
        self._memory = None
        if folder is None:
            self._memory = sqlite3.connect(":memory:", check_same_thread=False)
            self._memory.execute(_TABLE)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Wait until no other process adds vectors, and let none do so meanwhile."""
        if self._path is None:
            yield
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self._path.with_suffix(".lock"))
        try:
            acquired = lock.acquire(timeout=WARN_AFTER_SECONDS)
        except Timeout:
            warn(
                f"{lock.lock_file}: waiting for a process that encodes with the same encoder"
            )
            acquired = lock.acquire()
        with acquired:
            yield

    def missing(self, keys: Sequence[bytes]) -> list[bool]:
        """Whether the vector of each sentence is missing, ``(N,)``."""
        found: set[bytes] = set()
        for chunk in _chunks(keys):
            if self._has_table():
                with self._transaction() as database:
                    found.update(key for (key,) in _find(database, "key", "key", chunk))
        return [key not in found for key in keys]

    def read(self, keys: Sequence[bytes]) -> Iterator[Floats | None]:
        """Vectors in order, ``(n, D)``, float32; None in place of a block that lacks one."""
        for chunk in _chunks(keys):
            rows: dict[bytes, bytes] = {}
            if self._has_table():
                with self._transaction() as database:
                    rows = self._intact_rows(database, set(chunk))
            if rows.keys() >= set(chunk):
                values = b"".join(rows[key] for key in chunk)
                yield np.frombuffer(values, np.float32).reshape(-1, self.dim)
            else:
                yield None

    def add(self, keys: Sequence[bytes], vectors: Floats) -> None:
        """Keep vectors ``(N, D)``, all or none of them; sentences that have one keep theirs."""
        values = [row.tobytes() for row in np.asarray(vectors, dtype=np.float32)]
        rows = [
            (key, row, self._checksum(key, row))
            for key, row in zip(keys, values, strict=True)
        ]
        with self._transaction() as database:
            database.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
            database.execute(_TABLE)
            database.executemany("INSERT OR IGNORE INTO vectors VALUES (?, ?, ?)", rows)

    def _has_table(self) -> bool:
        # The file of a process that was killed before it wrote anything is empty.
        path = self._path
        return path is None or (path.exists() and path.stat().st_size > 0)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """A transaction, which ends where the file turns out to be damaged."""
        # A connection for each: none may cross a fork.
        database = self._memory or sqlite3.connect(
            str(self._path), timeout=_BUSY_SECONDS
        )
        database.text_factory = bytes  # damaged text may not be UTF-8
        try:
            with database:
                yield database
        # UnicodeDecodeError: of a message that quotes what is damaged.
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
            if self._path is None or code & 0xFF not in _DAMAGED:
                raise
            self._path.unlink(missing_ok=True)
            warn(f"{self._path}: damaged and deleted ({error}); {_AGAIN}")
        finally:
            if self._path is not None:
                database.close()

    def _intact_rows(
        self, database: sqlite3.Connection, keys: set[bytes]
    ) -> dict[bytes, bytes]:
        """Rows by key; damaged ones are deleted."""
        numbers = [number for (number,) in _find(database, "rowid", "key", list(keys))]
        rows: dict[bytes, bytes] = {}
        damaged = []
        # By number, in the order of the file: by key, each row would be a random access.
        columns = "rowid, key, row, checksum"
        for number, key, row, checksum in _find(database, columns, "rowid", numbers):
            are_bytes = isinstance(key, bytes) and isinstance(row, bytes)
            if not are_bytes or self._checksum(key, row) != checksum:
                damaged.append((number,))
            elif key in keys:
                rows[key] = row
        if len(rows) + len(damaged) < len(numbers):
            raise sqlite3.DatabaseError("the index contradicts the table")
        if damaged:
            database.executemany("DELETE FROM vectors WHERE rowid = ?", damaged)
            warn(
                f"{self._path}: {len(damaged)} vectors are damaged, or of another encoder; {_AGAIN}"
            )
        return rows

    def _checksum(self, key: bytes, row: bytes) -> bytes:
        """Checksum of a row of this encoder (XXH3, 64 bits: at the speed of memory)."""
        return xxhash.xxh3_64_digest(key + row, seed=self._seed)


def _find(
    database: sqlite3.Connection, columns: str, column: str, values: Sequence[Any]
) -> list[Any]:
    marks = ", ".join("?" * len(values))
    query = f"SELECT {columns} FROM vectors WHERE {column} IN ({marks})"
    return database.execute(query, values).fetchall()


def _chunks(keys: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    for start in range(0, len(keys), _KEYS_AT_ONCE):
        yield keys[start : start + _KEYS_AT_ONCE]

"""An SQLite table of the vectors of one encoder, in a file or in memory."""

import os
import platform
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout

from flowbert.arrays import Floats
from flowbert.errors import warn

KEY_BYTES = 16
"""Size in bytes of the digest of a sentence, the key of the table."""

WARN_AFTER_SECONDS = 5.0
"""Seconds before a warning names the lock's owner."""

_BUSY_SECONDS = 60.0  # a transaction takes milliseconds
_KEYS_AT_ONCE = 8192
_PAGE_BYTES = 16384  # with 4 KB, a quarter of each page would be empty
_TABLE = "CREATE TABLE IF NOT EXISTS vectors (key BLOB UNIQUE, row BLOB)"
# Error codes of SQLite for a damaged file.
_DAMAGED = {
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_ERROR,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_TOOBIG,
}


class Store:
    """Vectors of size D by the digests of their sentences.

    A damaged file is deleted with a warning; its vectors are missing from then on.

    Args:
        folder: Folder of the file, which may be missing; None for a store in memory.
        name: Digest of the encoder, hexadecimal, which is the name of the file.
        dim: Size D of a vector.
    """

    def __init__(self, folder: Path | None, name: str, dim: int) -> None:
        self.name = name
        self.dim = dim
        self._path = self._memory = None
        if folder is None:
            self._memory = sqlite3.connect(":memory:", check_same_thread=False)
        else:
            folder.mkdir(parents=True, exist_ok=True)
            self._path = folder / f"{name}.sqlite"

    @contextmanager
    def lock(self, deadline: float) -> Iterator[None]:
        """Lock the file, so that no other process encodes the same sentences.

        After the deadline the block runs without the lock, because several writers do no harm.

        Args:
            deadline: Latest time to wait for, as of ``time.monotonic()``.
        """
        if self._path is None:
            yield
            return
        lock = FileLock(self._path.with_suffix(".lock"))
        owner = self._path.with_suffix(".owner")
        with suppress(Timeout):
            lock.acquire(timeout=WARN_AFTER_SECONDS)
        if not lock.is_locked:
            running = "another process"
            with suppress(FileNotFoundError):  # it has just begun or ended
                running = owner.read_text()
            warn(f"{lock.lock_file}: waiting for {running} with the same encoder")
            with suppress(Timeout):
                lock.acquire(timeout=max(0.0, deadline - time.monotonic()))
        if not lock.is_locked:
            yield
            return
        try:
            now = time.strftime("%H:%M:%S")
            owner.write_text(f"process {os.getpid()} of {platform.node()}, since {now}")
            yield
        finally:
            owner.unlink(missing_ok=True)
            lock.release()

    def find(self, keys: Sequence[bytes]) -> set[bytes]:
        """The keys of the sentences that have a vector."""
        found: set[bytes] = set()
        for chunk in _chunks(keys):
            with self._transaction() as database:
                found.update(key for (key,) in _find(database, "key", "key", chunk))
        return found

    def read(self, keys: Sequence[bytes]) -> Iterator[Floats | None]:
        """Blocks of vectors in order, ``(n, D)``, float32; None if a block misses a vector."""
        for chunk in _chunks(keys):
            wanted = set(chunk)
            rows: dict[bytes, bytes] = {}
            with self._transaction() as database:
                numbers = [n for (n,) in _find(database, "rowid", "key", list(wanted))]
                # Rows by number are read in the order of the file, by key in random order.
                rows = dict(_find(database, "key, row", "rowid", numbers))
                if len(rows.keys() & wanted) < len(numbers):
                    rows = {}
                    raise sqlite3.DatabaseError("the index contradicts the table")
            if rows.keys() >= wanted:
                values = b"".join(rows[key] for key in chunk)
                yield np.frombuffer(values, np.float32).reshape(-1, self.dim)
            else:
                yield None

    def add(self, keys: Sequence[bytes], vectors: Floats) -> None:
        """Add all vectors ``(N, D)`` or, after an error, none; existing vectors stay."""
        rows = [row.tobytes() for row in np.asarray(vectors, dtype=np.float32)]
        with self._transaction() as database:
            pairs = zip(keys, rows, strict=True)
            database.executemany("INSERT OR IGNORE INTO vectors VALUES (?, ?)", pairs)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Open a transaction; if the file turns out to be damaged, delete it with a warning."""
        path = self._path
        # A process that was killed before it wrote anything leaves an empty file.
        is_new = path is None or not (path.exists() and path.stat().st_size)
        # One connection for each transaction: SQLite forbids to use one after a fork.
        database = self._memory or sqlite3.connect(str(path), timeout=_BUSY_SECONDS)
        database.text_factory = bytes  # damaged text may not be UTF-8
        try:
            with database:
                if is_new:
                    database.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
                    database.execute(_TABLE)
                yield database
        # A message that quotes damaged text raises a UnicodeDecodeError.
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
            if path is None or code & 0xFF not in _DAMAGED:
                raise
            path.unlink(missing_ok=True)
            warn(
                f"{path}: damaged and deleted ({error}); its sentences are encoded again"
            )
        finally:
            if path is not None:
                database.close()


def _find(
    database: sqlite3.Connection, columns: str, column: str, values: Sequence[Any]
) -> list[Any]:
    marks = ", ".join("?" * len(values))
    query = f"SELECT {columns} FROM vectors WHERE {column} IN ({marks})"
    return database.execute(query, values).fetchall()


def _chunks(keys: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    for start in range(0, len(keys), _KEYS_AT_ONCE):
        yield keys[start : start + _KEYS_AT_ONCE]

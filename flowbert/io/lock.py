"""One process at a time where several read a file, change it and write it back."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: files still appear whole, but of two that are written at once one may win
    fcntl = None  # type: ignore[assignment]


@contextmanager
def locked(folder: str | Path) -> Iterator[None]:
    """Wait until no other process is inside for this folder; the lock goes with the process, and leaves no file.

    Where the system cannot lock a folder (some network drives), nothing is waited for.
    """
    Path(folder).mkdir(parents=True, exist_ok=True)
    if fcntl is None:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)

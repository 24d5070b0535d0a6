"""Files of vectors that are written: their formats, and .npy files that resume."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray

from flowbert.errors import UserError
from flowbert.io import follow_link

VECTOR_FORMATS = (".npy", ".safetensors", ".parquet")
"""Formats of :mod:`flowbert.extras.vector_files`, which reads and writes them."""


def check_output(path: str | Path) -> None:
    """Raise a UserError for a file that cannot be written, by its extension."""
    if Path(path).suffix not in VECTOR_FORMATS:
        raise UserError(
            f"received {path}; expected a file ending in {', '.join(VECTOR_FORMATS)}",
            argument="output",
        )


def append_vectors(
    path: str | Path,
    key: str,
    count: int,
    size: int,
    blocks: Callable[[int], Iterator[NDArray[Any]]],
) -> tuple[int, int]:
    """Write vectors into a .npy file; what an interrupted call has written is kept.

    Until all are there, they are in ``.NAME.KEY.npy`` in the same folder.

    Args:
        path: File ending in .npy.
        key: Digest of what determines the vectors.
        count: Number of vectors N.
        size: Vectors of a block.
        blocks: Makes the blocks ``(n, k)`` from a row on.

    Returns:
        Shape ``(N, k)``.

    Raises:
        UserError: If another process writes these vectors.
        KeyboardInterrupt: After Ctrl-C; its message tells what is kept.
    """
    path = follow_link(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.stem}.{key}.npy")
    lock = FileLock(partial.with_suffix(".lock"))
    try:
        lock.acquire(blocking=False)
    except Timeout as error:
        raise UserError(
            f"another process writes these vectors into {path}", argument="output"
        ) from error
    done = 0
    try:
        with partial.open("a+b") as file:
            done, end = _whole_blocks(file, count, size)
            file.truncate(end)
            for block in blocks(done):
                shape = count, block.shape[1]
                if not done:
                    header = np.lib.format.header_data_from_array_1_0(block)
                    np.lib.format.write_array_header_1_0(
                        file, header | {"shape": shape, "fortran_order": False}
                    )
                file.write(block.tobytes())
                file.flush()
                done += len(block)
            os.fsync(file)
        os.replace(partial, path)
    except KeyboardInterrupt as error:
        if not done:
            raise
        raise KeyboardInterrupt(
            f"{done} of {count} vectors are in {partial}; the same command resumes"
        ) from error
    finally:
        if not done:
            partial.unlink(missing_ok=True)
        Path(lock.lock_file).unlink()
        lock.release()
    return shape


def _whole_blocks(file: IO[bytes], count: int, size: int) -> tuple[int, int]:
    """Rows of an unfinished .npy file, without the last block, and the bytes up to their end."""
    file.seek(0)
    try:
        np.lib.format.read_magic(file)
        (_, dim), _, dtype = np.lib.format.read_array_header_1_0(file)
    except ValueError:  # not even a whole header
        return 0, 0
    start, row = file.tell(), dim * dtype.itemsize
    written = (file.seek(0, os.SEEK_END) - start) // row
    rows = min(written, count - 1) // size * size
    return rows, start + rows * row if rows else 0

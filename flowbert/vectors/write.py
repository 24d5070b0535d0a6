"""The writer of files of vectors; interrupted .npy files resume."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from numpy.lib.format import open_memmap

from flowbert.errors import UserError
from flowbert.io import (
    follow_link,
    read_json,
    release_pages,
    replace_durably,
    write_atomically,
    write_json,
)

VECTOR_FORMATS = (".npy", ".safetensors", ".parquet")
"""Extensions of files of vectors."""

PARQUET_COLUMN = "embedding"
"""Column of the vectors in .parquet files."""


def check_output(path: str | Path) -> None:
    """Raise a UserError for a file that cannot be written, by its extension."""
    if Path(path).suffix not in VECTOR_FORMATS:
        raise UserError(
            f"received {path}; expected a file ending in {', '.join(VECTOR_FORMATS)}",
            argument="output",
        )


def write_vectors(
    path: str | Path,
    blocks: Callable[[int], Iterable[Any]],
    count: int,
    *,
    columns: Any = None,
    key: str | None = None,
) -> tuple[int, int]:
    """Write vectors block by block, except for .safetensors.

    The file appears when it is complete. With a key, an unfinished .npy file is kept as
    ``.NAME.KEY.npy`` in the same folder, and the next call with this key continues it.

    Args:
        path: File ending in .npy, .safetensors or .parquet.
        blocks: Function of a row, which yields the blocks from this row on: arrays ``(n, k)``, or
            tensors for .safetensors.
        count: Number of rows N, at least 1.
        columns: Other columns of a .parquet file, before ``embedding``: a pyarrow table of N rows.
        key: Digest of everything that determines the vectors of a .npy file; None for a file that
            does not resume.

    Returns:
        Shape ``(N, k)``.

    Raises:
        UserError: If the extension is unknown, or another process writes the same vectors.
        KeyboardInterrupt: After Ctrl-C, with a message on what is kept.
    """
    path = follow_link(path)
    check_output(path)
    if key is not None:
        with _keep_unfinished(path, key) as unfinished:
            return _write_npy(unfinished, blocks, count, resumes=True)
    with write_atomically(path) as unfinished:
        if path.suffix == ".npy":
            return _write_npy(unfinished, blocks, count)
        write = _write_parquet if path.suffix == ".parquet" else _write_safetensors
        return count, write(unfinished, blocks(0), columns)


@contextmanager
def _keep_unfinished(path: Path, key: str) -> Iterator[Path]:
    """Yield the path of an unfinished file; rename it to ``path`` at the end.

    The file is kept after an interruption, and deleted after a UserError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.stem}.{key}{path.suffix}")
    lock, state = unfinished.with_suffix(".lock"), unfinished.with_suffix(".json")
    try:
        with FileLock(lock, timeout=0):
            try:
                yield unfinished
                replace_durably(unfinished, path)
                state.unlink()
            finally:
                lock.unlink()
    except Timeout as error:
        message = f"another process writes these vectors into {path}"
        raise UserError(message, argument="output") from error
    except UserError:
        unfinished.unlink(missing_ok=True)
        state.unlink(missing_ok=True)
        raise
    except KeyboardInterrupt as error:
        if not state.exists():
            unfinished.unlink(missing_ok=True)
            raise
        message = f"{unfinished} has what is finished; the same command resumes"
        raise KeyboardInterrupt(message) from error


def make_npy(path: Path, dtype: Any, shape: tuple[int, int]) -> Any:
    """Make an .npy file for rows in any order, as a memory-mapped array ``(N, k)``.

    Raises:
        OSError: If the disk has too little space, which would end the process later.
    """
    rows = open_memmap(path, "w+", dtype, shape)
    if hasattr(os, "posix_fallocate"):  # not on a Mac
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    return rows


def _write_npy(
    path: Path,
    blocks: Callable[[int], Iterable[Any]],
    count: int,
    resumes: bool = False,
) -> tuple[int, int]:
    """Write blocks into a file; another file counts the finished rows."""
    state = path.with_suffix(".json")
    done = read_json(state, int) if state.exists() and path.exists() else 0
    rows = open_memmap(path, "r+") if done else None
    for block in blocks(done):
        if rows is None:
            rows = make_npy(path, block.dtype, (count, block.shape[1]))
        rows[done : done + len(block)] = block
        done += len(block)
        if resumes:
            rows.flush()  # before it is counted
            write_json(state, done)
        release_pages(rows)
    assert rows is not None
    return count, rows.shape[1]


def _write_safetensors(path: Path, blocks: Iterable[Any], _: Any) -> int:
    import torch
    from safetensors.torch import save

    values = torch.cat([torch.as_tensor(block) for block in blocks])
    path.write_bytes(save({"embeddings": values}))
    return int(values.shape[1])


def _write_parquet(path: Path, blocks: Iterable[Any], others: Any) -> int:
    import pyarrow as pa
    import pyarrow.parquet

    remaining = iter(blocks)
    first = next(remaining)
    dim: int = first.shape[1]
    kind = pa.list_(pa.from_numpy_dtype(first.dtype), dim)
    fields = [] if others is None else others.schema
    schema = pa.schema([*fields, (PARQUET_COLUMN, kind)])
    start = 0
    with pyarrow.parquet.ParquetWriter(path, schema) as writer:
        for block in chain([first], remaining):
            rows = [] if others is None else others.slice(start, len(block)).columns
            values = pa.array(block.reshape(-1))
            vectors = pa.FixedSizeListArray.from_arrays(values, dim)
            writer.write_table(pa.table([*rows, vectors], schema=schema))
            start += len(block)
    return dim

"""Files of vectors: blocks, columns next to them, and .npy files that resume."""

import os
import resource
import signal
from multiprocessing import get_context

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from filelock import FileLock

from flowbert.arrays import BLOCK_ROWS
from flowbert.extras.vector_files import other_columns
from flowbert.vectors import write_vectors
from helpers import refused, rows

X = rows(50, 6).astype(np.float32)


def test_columns_beside_the_vectors_follow_their_rows(tmp_path):
    """Whatever the files, their groups of rows and the blocks that are written."""
    count, dim = 2 * BLOCK_ROWS + 9, 3
    values = rows(count, dim).astype(np.float32)
    table = pa.table({"id": range(count), "x": [*values], "name": ["a"] * count})
    (tmp_path / "parts").mkdir()
    for number, (start, end) in enumerate([(0, 5), (5, 3000), (3000, count)]):
        pyarrow.parquet.write_table(
            table.slice(start, end - start),
            tmp_path / "parts" / f"{number}.parquet",
            row_group_size=700,
        )
    others = other_columns(tmp_path / "parts")
    blocks = [values[:1], values[1:3500], values[3500:]]
    to = tmp_path / "to.parquet"
    write_vectors(to, lambda _: blocks, count, columns=others)
    written = pyarrow.parquet.read_table(to)
    assert written.column_names == ["id", "name", "embedding"]
    assert written["id"].to_pylist() == list(range(count))
    assert np.array_equal(np.stack(written["embedding"].to_numpy()), values)


def append(path, start=0, killed_at=50):
    """Append blocks of 10 rows, which must begin at a row; the process is killed at another."""

    def blocks(first):
        assert first == start
        for row in range(first, len(X), 10):
            if row >= killed_at:
                os.kill(os.getpid(), signal.SIGKILL)
            yield X[row : row + 10]

    return write_vectors(path, blocks, len(X), key="key")


@pytest.mark.parametrize("killed_at", [30, 0])
def test_a_killed_process_leaves_blocks_that_are_kept(killed_at, tmp_path):
    path, partial = tmp_path / "a.npy", tmp_path / ".a.key.npy"
    process = get_context("fork").Process(target=append, args=(path, 0, killed_at))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    if killed_at:
        np.load(partial, "r+")[killed_at:] = 7  # part of a block that is not counted
    else:
        partial.write_bytes(b"half a header")
    with FileLock(tmp_path / ".a.key.lock"):
        refused("^output: another process writes", append, path)
    assert not path.exists()
    assert append(path, killed_at) == X.shape
    assert list(tmp_path.iterdir()) == [path]
    written = np.load(path)
    assert written.dtype == X.dtype
    assert np.array_equal(written, X)


def test_a_disk_without_room_is_an_error_before_anything_is_encoded(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (600, hard))
    try:
        with pytest.raises(OSError, match="too large"):
            append(tmp_path / "a.npy")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

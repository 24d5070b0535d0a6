"""Files of vectors, read and written block by block, and vectors of fewer bits."""

import tracemalloc
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import safetensors.numpy
import safetensors.torch
import torch

from flowbert.arrays import BLOCK_ROWS
from flowbert.extras.vector_files import other_columns
from flowbert.maps import (
    Standardization,
)
from flowbert.vectors import as_vectors, write_vectors
from helpers import refused, rows

X = rows(50, 6).astype(np.float32)


def one_block(block, _):
    return [block]


def test_a_folder_of_parquet_files_is_one_table(tmp_path):
    for number in range(3):
        part = X[4 * number : 4 * number + 4]
        file = tmp_path / f"part.{number}.parquet"
        write_vectors(file, partial(one_block, part), len(part))
    assert np.array_equal(as_vectors(tmp_path)[:], X[:12])


def test_a_group_of_rows_is_not_read_as_a_whole(tmp_path):
    """Many programs write a file as one group."""
    values = rows(20 * BLOCK_ROWS, 64).astype(np.float32)
    table = pa.table({"id": range(len(values)), "x": [*values]})
    pyarrow.parquet.write_table(table, tmp_path / "x.parquet", len(values))
    del table
    opened = as_vectors(tmp_path / "x.parquet")
    before = pa.total_allocated_bytes()
    used = [pa.total_allocated_bytes() - before for _ in opened.blocks()]
    assert len(used) == 20
    assert max(used) < values.nbytes / 2


def test_mistakes_in_columns_beside_the_vectors(tmp_path):
    table = pa.table({"x": [[1.0], [2.0]], "embedding": [[1.0], [2.0]]})
    pyarrow.parquet.write_table(table, tmp_path / "0.parquet")
    assert other_columns(tmp_path, "x") is None
    pyarrow.parquet.write_table(table.select(["embedding"]), tmp_path / "1.parquet")
    refused(r"^column: received 'x' for .*1\.parquet", as_vectors, tmp_path, "x")


def parquet(column):
    return lambda file: pyarrow.parquet.write_table(pa.table({"x": column}), file)


def npy(values):
    return lambda file: np.save(file, values)


NO_VECTORS = {
    "ragged.parquet": parquet([[1.0], [1.0, 2.0]]),
    "null.parquet": parquet([[1.0], None]),
    "text.parquet": parquet(["a"]),
    "flat.npy": npy(np.ones(3)),
    "empty.npy": npy(np.empty((0, 3))),
    "words.npy": npy(np.array([["a"]])),
    "objects.npy": npy(np.array([[{}]])),
    "nan.npy": npy(np.array([[np.nan]])),
    "cut.npy": lambda file: file.write_bytes(b"\x93NUMPY"),
    "several.safetensors": lambda file: safetensors.numpy.save_file(
        {"a": X, "b": X}, file
    ),
    "bytes.safetensors": lambda file: file.write_bytes(b"{}" * 9),
    "missing.npy": lambda _: None,
    "x.csv": lambda _: None,
}


def test_lists_of_words_are_no_vectors(tmp_path):
    tags, file = [["a", "b"], ["c", "d"]], tmp_path / "x.parquet"
    pyarrow.parquet.write_table(pa.table({"tags": tags}), file)
    refused(r"x\.parquet: holds no vectors", as_vectors, file)
    pyarrow.parquet.write_table(pa.table({"tags": tags, "x": [[1.0], [2.0]]}), file)
    assert as_vectors(file)[:].tolist() == [[1.0], [2.0]]


@pytest.mark.parametrize("suffix", [".npy", ".safetensors", ".parquet"])
def test_other_numbers_become_float32(suffix, tmp_path):
    for dtype in ("float16", "float64", "int16", "int64"):
        file, values = tmp_path / f"x{suffix}", X.astype(dtype)
        write_vectors(file, partial(one_block, values), len(values))
        assert np.array_equal(as_vectors(file)[:], values.astype(np.float32))


def test_bfloat16_becomes_float32(tmp_path):
    values, file = torch.from_numpy(X).bfloat16(), tmp_path / "x.safetensors"
    safetensors.torch.save_file({"x": values}, file)
    expected = values.float().numpy()
    assert np.array_equal(as_vectors(file)[:], expected)
    assert np.array_equal(np.concatenate(list(as_vectors(file).blocks())), expected)


@pytest.mark.parametrize("suffix", [".npy", ".safetensors", ".parquet"])
def test_bytes_are_no_vectors(suffix, tmp_path):
    for codes in (X.astype("int8"), np.packbits(X > 0, axis=1)):
        file = tmp_path / f"x{suffix}"
        write_vectors(file, partial(one_block, codes), len(codes))
        for vectors in (file, codes, torch.from_numpy(codes)):
            refused("two bytes or more", as_vectors, vectors)


@pytest.mark.parametrize("name", NO_VECTORS)
def test_files_that_hold_no_vectors_are_named(name, tmp_path):
    NO_VECTORS[name](tmp_path / name)
    refused(name, lambda: list(as_vectors(tmp_path / name).blocks()))


def test_memory_does_not_grow_with_the_rows(tmp_path):
    vectors = rows(12 * BLOCK_ROWS, 16).astype(np.float32)
    path = tmp_path / "x.npy"
    write_vectors(path, lambda _: [vectors], len(vectors))
    Standardization().fit(as_vectors(path))  # what is imported and cached stays
    tracemalloc.start()
    _ = as_vectors(path).digest
    Standardization().fit(as_vectors(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # A block, and two of its size in float64: five of the twelve.
    assert peak < vectors.nbytes / 2

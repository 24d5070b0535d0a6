"""Files of vectors, read and written block by block, and vectors of fewer bits."""

import tracemalloc
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import safetensors.numpy
import safetensors.torch
import torch

from flowbert.arrays import BLOCK_ROWS
from flowbert.errors import FlowbertWarning, UserError
from flowbert.maps import (
    Moments,
    Ranges,
    Scale,
    Standardization,
    quantize,
    read_map_file,
    save_map,
)
from flowbert.vectors import VectorFile, as_vectors, write_vectors
from helpers import refused, rows

X = rows(50, 6).astype(np.float32)


def test_a_folder_of_parquet_files_is_one_table(tmp_path):
    """In the numeric order of their names."""
    for number in range(11):
        part = X[4 * number : 4 * number + 4]
        write_vectors(
            tmp_path / f"part.{number}.parquet", [part], part.shape, "float32"
        )
    assert np.array_equal(np.concatenate(list(as_vectors(tmp_path).blocks())), X[:44])


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
    opened = VectorFile(tmp_path / "parts")
    blocks = [values[:1], values[1:3500], values[3500:]]
    to = tmp_path / "to.parquet"
    write_vectors(to, blocks, values.shape, "float32", opened.other_columns())
    written = pyarrow.parquet.read_table(to)
    assert written.column_names == ["id", "name", "embedding"]
    assert written["id"].to_pylist() == list(range(count))
    assert np.array_equal(np.stack(written["embedding"].to_numpy()), values)


def test_a_group_of_rows_is_not_read_as_a_whole(tmp_path):
    """Many programs write a file as one group."""
    values = rows(20 * BLOCK_ROWS, 64).astype(np.float32)
    table = pa.table({"id": range(len(values)), "x": [*values]})
    pyarrow.parquet.write_table(table, tmp_path / "x.parquet", len(values))
    del table
    opened = VectorFile(tmp_path / "x.parquet")
    before = pa.total_allocated_bytes()
    used = [pa.total_allocated_bytes() - before for _ in opened.blocks()]
    assert len(used) == 20
    assert max(used) < values.nbytes / 2


def test_mistakes_in_columns_beside_the_vectors(tmp_path):
    table = pa.table({"x": [[1.0], [2.0]], "embedding": [[1.0], [2.0]]})
    pyarrow.parquet.write_table(table, tmp_path / "0.parquet")
    with pytest.raises(UserError, match=r"^column: .*'embedding' and 'x'"):
        VectorFile(tmp_path, "x").other_columns()
    pyarrow.parquet.write_table(table.select(["embedding"]), tmp_path / "1.parquet")
    with pytest.raises(UserError, match=r"1\.parquet: lacks the column 'x'"):
        list(VectorFile(tmp_path, "x").blocks())


def test_files_of_a_folder_with_other_types(tmp_path):
    table = pa.table({"id": [1, 2], "x": [[1.0], [2.0]]})
    others = {
        "id": (["a", "b"], "another type than in the first file"),
        "x": (["a", "b"], "holds string; expected lists of numbers"),
    }
    for name, (values, message) in others.items():
        folder = tmp_path / name
        folder.mkdir()
        other = table.set_column(table.column_names.index(name), name, [values])
        for file, each in (("0", table), ("1", other)):
            pyarrow.parquet.write_table(each, folder / f"{file}.parquet")
        opened = VectorFile(folder)
        with pytest.raises(UserError, match=message):
            write_vectors(
                tmp_path / "to.parquet",
                opened.blocks(),
                opened.shape,
                "float32",
                opened.other_columns(),
            )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["id", "x"]


def test_lists_of_words_are_no_vectors(tmp_path):
    tags, file = [["a", "b"], ["c", "d"]], tmp_path / "x.parquet"
    pyarrow.parquet.write_table(pa.table({"tags": tags}), file)
    refused(r"x\.parquet: holds no vectors", VectorFile, file)
    pyarrow.parquet.write_table(pa.table({"tags": tags, "x": [[1.0], [2.0]]}), file)
    assert VectorFile(file)[:].tolist() == [[1.0], [2.0]]


@pytest.mark.parametrize("suffix", [".npy", ".safetensors", ".parquet"])
def test_other_numbers_become_float32(suffix, tmp_path):
    for dtype in ("float16", "float64", "int16", "int64"):
        file, values = tmp_path / f"x{suffix}", X.astype(dtype)
        write_vectors(file, [values], values.shape, dtype)
        assert np.array_equal(as_vectors(file)[:], values.astype(np.float32))


def test_bfloat16_becomes_float32(tmp_path):
    values, file = torch.from_numpy(X).bfloat16(), tmp_path / "x.safetensors"
    safetensors.torch.save_file({"x": values}, file)
    expected = values.float().numpy()
    assert np.array_equal(as_vectors(file)[:], expected)
    assert np.array_equal(np.concatenate(list(as_vectors(file).blocks())), expected)


@pytest.mark.parametrize("suffix", [".npy", ".safetensors", ".parquet"])
def test_bytes_are_no_vectors(suffix, tmp_path):
    for precision in ("int8", "ubinary"):
        codes = quantize(X, precision, Ranges.of([X]))
        file = tmp_path / f"x{suffix}"
        write_vectors(file, [codes], codes.shape, str(codes.dtype))
        for vectors in (file, codes, torch.from_numpy(codes)):
            refused("two bytes or more", as_vectors, vectors)


def written(tmp_path, case):
    """A file that cannot be read as vectors, and the column asked for."""
    file = tmp_path / ("x.parquet" if case in ("ragged", "null", "text") else "x.npy")
    lists = {
        "ragged": [[1.0], [1.0, 2.0]],
        "null": [[1.0], None],
        "text": ["a"],
    }
    arrays = {
        "one dimension": np.ones(3),
        "empty": np.empty((0, 3)),
        "words": np.array([["a"]]),
        "objects": np.array([[{}]]),
        "NaN": np.array([[np.nan]]),
    }
    if case in lists:
        pyarrow.parquet.write_table(pa.table({"x": lists[case]}), file)
    elif case in arrays:
        np.save(file, arrays[case])
    elif case == "cut":
        np.save(file, X)
        file.write_bytes(file.read_bytes()[:-40])
    elif case == "column of .npy":
        np.save(file, X)
        return file, "x"
    elif case == "several":
        file = tmp_path / "x.safetensors"
        safetensors.numpy.save_file({"a": X, "b": X}, file)
    elif case == "extension":
        return tmp_path / "x.csv", None
    elif case == "not safetensors":
        file = tmp_path / "x.safetensors"
        file.write_bytes(b"{}" * 9)
    return file, None


@pytest.mark.parametrize(
    "case",
    [
        "ragged",
        "null",
        "text",
        "one dimension",
        "empty",
        "words",
        "objects",
        "NaN",
        "cut",
        "column of .npy",
        "several",
        "extension",
        "not safetensors",
        "missing",
    ],
)
def test_files_that_hold_no_vectors_are_named(case, tmp_path):
    file, column = written(tmp_path, case)
    with pytest.raises(UserError, match=file.name):
        list(as_vectors(file, column).blocks())


def test_an_unknown_extension_writes_nothing(tmp_path):
    refused(r"x\.csv", write_vectors, tmp_path / "x.csv", [X], X.shape, "float32")
    assert list(tmp_path.iterdir()) == []


def test_int8_steps_cover_the_range_of_each_dimension(tmp_path):
    ranges = Ranges.of([X[:25], X[25:]])
    codes = quantize(X, "int8", ranges)
    assert codes.dtype == np.int8
    assert np.array_equal(codes.min(axis=0), np.full(6, -128))
    assert np.array_equal(codes.max(axis=0), np.full(6, 127))
    half_a_step = (ranges.high - ranges.low) / 255 / 2
    assert (np.abs(ranges.restore(codes) - X) <= half_a_step * 1.001).all()
    unsigned = quantize(X, "uint8", ranges)
    assert np.array_equal(unsigned, codes.astype(int) + 128)
    assert np.array_equal(ranges.restore(unsigned), ranges.restore(codes))
    save_map(None, tmp_path / "raw", scale=Scale.of(X))
    saved: Any = read_map_file(tmp_path / "raw")[1]
    assert np.array_equal(quantize(X, "int8", saved.plain), codes)
    assert np.array_equal(quantize(X[:, :2], "int8", ranges.first(2)), codes[:, :2])
    beyond = quantize(np.full((1, 6), 1e9, dtype=np.float32), "int8", ranges)
    assert np.array_equal(beyond, np.full((1, 6), 127))


def test_a_dimension_that_does_not_vary_is_zero_in_int8():
    x = X.copy()
    x[:, 1] = 7.0
    with pytest.warns(FlowbertWarning, match="without a saved scale"):
        assert not quantize(x, "int8")[:, 1].any()


def test_precisions_that_there_are_not():
    refused("int4", quantize, X, "int4")
    refused("one vector", quantize, X[:1], "int8")
    refused("up to 7e[+]04; expected at most 65504", quantize, X * 0 - 7e4, "float16")


@pytest.mark.parametrize(
    "read",
    [
        lambda file: file.digest,
        lambda file: Moments(file.shape[1]).update_blocks(file.blocks()),
        lambda file: Standardization().fit(file),
    ],
    ids=["digest", "moments", "map"],
)
def test_memory_does_not_grow_with_the_rows(read, tmp_path):
    vectors = rows(12 * BLOCK_ROWS, 16).astype(np.float32)
    write_vectors(tmp_path / "x.npy", [vectors], vectors.shape, "float32")
    tracemalloc.start()
    read(as_vectors(tmp_path / "x.npy"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # A block, its bytes or its copy in float64, of twice the size.
    assert peak < 4 * BLOCK_ROWS * 16 * 4

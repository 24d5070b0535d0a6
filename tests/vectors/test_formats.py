"""Files of vectors by format: the same numbers from all of them, and one line for what is wrong."""

import io
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.feather
import pyarrow.parquet
import pytest
import torch
from safetensors.torch import save_file

from flowbert.errors import UserError
from flowbert.vectors import WRITABLE, VectorTable, write_vectors
from flowbert.vectors.formats import FORMATS, open_matrix

ROWS, DIM = 9000, 6  # more rows than a block
X = np.random.default_rng(0).standard_normal((ROWS, DIM)).astype(np.float32)


def lists(x: np.ndarray, kind: Any) -> pyarrow.Array:
    return pyarrow.array(list(x), kind)


def foreign_files(folder: Path) -> dict[str, Path]:
    """The same vectors as other libraries write them."""
    ragged = pyarrow.list_(pyarrow.float32())
    fixed, wide = pyarrow.list_(pyarrow.float64(), DIM), pyarrow.large_list(pyarrow.float32())
    names = ("f.npy", "g.npy", "t.safetensors", "groups.parquet", "one.parquet", "lz4.feather", "stream.arrow")
    paths = {name: folder / name for name in names}
    np.save(paths["f.npy"], np.asfortranarray(X))
    np.save(paths["g.npy"], X.astype(">f8"))
    save_file({"a": torch.zeros(2, 2), "b": torch.from_numpy(X)}, paths["t.safetensors"])
    table = pyarrow.table({"id": list(range(ROWS)), "v": lists(X, ragged)})
    pyarrow.parquet.write_table(table, paths["groups.parquet"], row_group_size=1000)
    pyarrow.parquet.write_table(pyarrow.table({"v": lists(X, fixed)}), paths["one.parquet"])
    pyarrow.feather.write_feather(pyarrow.table({"id": list(range(ROWS)), "v": lists(X, wide)}), paths["lz4.feather"])
    table = pyarrow.table({"id": list(range(ROWS)), "v": lists(X, fixed)})
    with pyarrow.ipc.new_stream(str(paths["stream.arrow"]), table.schema) as stream:
        stream.write_table(table, max_chunksize=3500)
    return paths


def test_every_format_gives_the_same_numbers(tmp_path: Path) -> None:
    files = foreign_files(tmp_path)
    for suffix in WRITABLE:
        write_vectors(tmp_path / f"own{suffix}", [X[:5000], X[5000:]], X.shape, "float32")
        files[suffix] = tmp_path / f"own{suffix}"
    rows = np.random.default_rng(1).integers(0, ROWS, 50)
    for name, path in files.items():
        table = VectorTable.open(path, "b" if name == "t.safetensors" else None)
        assert (len(table), table.dim) == (ROWS, DIM), name
        starts, blocks = zip(*table.blocks(), strict=True)
        assert starts == tuple(np.cumsum([0, *map(len, blocks)])[:-1]), name
        np.testing.assert_array_equal(np.concatenate(blocks), X, name)
        np.testing.assert_array_equal(table.take(rows), X[rows], name)
        assert table.digest == VectorTable.open(X).digest, name
        assert VectorTable.open(path, table.column).digest == table.digest, name
    assert {*WRITABLE, ".json"} == set(FORMATS)  # a manifest of parts: tests/vectors/test_manifest.py


@pytest.mark.parametrize("kind", ["float16", "float32", "float64", "int8", "uint8", "int16", "uint16"])
def test_numbers_of_other_types_are_the_same_numbers(tmp_path: Path, kind: str) -> None:
    x = np.random.default_rng(0).integers(0, 100, (5, 3)).astype(kind)
    np.save(tmp_path / "x.npy", x)
    pyarrow.parquet.write_table(pyarrow.table({"v": list(x)}), tmp_path / "x.parquet")
    save_file({"v": torch.from_numpy(x)}, tmp_path / "x.safetensors")
    for suffix in (".npy", ".parquet", ".safetensors"):
        found = VectorTable.open(tmp_path / f"x{suffix}").take([4, 0])
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, x[[4, 0]].astype(np.float32))


def test_bfloat16_is_read_exactly(tmp_path: Path) -> None:
    x = torch.from_numpy(X[:50]).to(torch.bfloat16)
    save_file({"v": x}, tmp_path / "x.safetensors")
    np.testing.assert_array_equal(VectorTable.open(tmp_path / "x.safetensors").take(range(50)), x.float().numpy())


def parquet(**columns: Any) -> Callable[[Path], None]:
    return lambda path: pyarrow.parquet.write_table(pyarrow.table(columns), path)


FLAT = np.arange(3.0)
FILE = io.BytesIO()
np.save(FILE, X)
NPY = FILE.getvalue()
BAD: dict[str, tuple[str, Callable[[Path], object], str | None, str]] = {
    "one dimension": ("x.npy", lambda p: np.save(p, FLAT), None, r"has 1 dimensions, \(3,\); allowed: 2"),
    "no row": ("x.npy", lambda p: np.save(p, np.zeros((0, 3))), None, "holds 0 rows of 3 numbers"),
    "complex": ("x.npy", lambda p: np.save(p, X.astype(complex)), None, "holds complex128; allowed: float32"),
    "numbers of rows": ("x.npy", lambda p: np.save(p, X.astype(np.int64)), None, "holds int64; allowed: float32"),
    "objects": ("x.npy", lambda p: np.save(p, np.array([[None]])), None, "not a .npy file of numbers, or damaged"),
    "column of npy": ("x.npy", lambda p: np.save(p, X), "v", "column: received 'v'; .* has no columns"),
    "cut short": ("x.npy", lambda p: p.write_bytes(NPY[:-9]), None, "or damaged"),
    "no header": ("x.safetensors", lambda p: p.write_bytes(b"12345678{"), None, "not a safetensors file, or damaged"),
    "tensors": (
        *("x.safetensors", lambda p: save_file({"a": torch.zeros(2, 2), "b": torch.zeros(2, 2)}, p), None),
        "received no column; allowed: a, b",
    ),
    "no such tensor": (
        *("x.safetensors", lambda p: save_file({"aa": torch.zeros(2, 2)}, p), "ab"),
        "no tensor 'ab'; allowed: aa",
    ),
    "ragged": (
        *("x.parquet", parquet(v=[[1.0, 2.0], [1.0, 2.0], [3.0]]), None),
        "column 'v': row 2 is a list of 1 numbers; allowed: 2",
    ),
    "null": ("x.parquet", parquet(v=[[1.0, 2.0], None]), None, "row 1 is null; allowed: 2"),
    "null number": ("x.parquet", parquet(v=[[1.0, 2.0], [1.0, None]]), None, "row 1 holds NaN or infinite values"),
    "text": ("x.parquet", parquet(v=[["a"], ["b"]]), None, "column 'v': holds string; allowed: float32"),
    "no lists": ("x.parquet", parquet(v=[1.0, 2.0]), "v", "column 'v' holds double; allowed: lists of numbers"),
    "two lists": ("x.parquet", parquet(v=[[1.0]], w=[[1.0]]), None, "received no column; allowed: v, w"),
    "no column": ("x.parquet", parquet(i=[1]), None, "no column of lists"),
    "no parquet": ("x.parquet", lambda p: p.write_bytes(b"PAR1 nothing"), None, "not a .parquet file, or damaged"),
    "no arrow": ("x.arrow", lambda p: p.write_bytes(b"nothing at all"), None, "not a .arrow file, or damaged"),
    "ending": ("x.npz", lambda p: p.write_bytes(b"x"), None, "unknown extension '.npz'; allowed for vectors: .npy"),
    "empty file": ("x.npy", lambda p: p.touch(), None, "the file is empty"),
    "missing": ("x.npy", Path.exists, None, "no such file"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_is_one_line_with_the_file(tmp_path: Path, name: str) -> None:
    file, write, column, message = BAD[name]
    write(tmp_path / file)
    with pytest.raises(UserError, match=message) as error:
        assert VectorTable.open(tmp_path / file, column).digest
    assert str(tmp_path / file) in str(error.value)


@pytest.mark.parametrize("suffix", WRITABLE)
def test_damage_is_one_line_or_other_numbers(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"x{suffix}"
    write_vectors(path, [X[:20]], (20, DIM), "float32")
    good, rng, refused = path.read_bytes(), random.Random(0), 0
    for _ in range(60):
        content = bytearray(good)
        place = rng.randrange(min(len(good), 160) if rng.random() < 0.5 else len(good))
        if rng.random() < 0.5:
            content[place] ^= 1 << rng.randrange(8)
        else:
            del content[place:]
        path.write_bytes(content)
        try:
            assert VectorTable.open(path).digest
        except UserError:
            refused += 1
    assert refused > 20


def test_the_number_of_columns_is_said_of_a_format_with_columns(tmp_path: Path) -> None:
    parquet(v=[[1.0]], w=[[2.0]])(tmp_path / "x.parquet")
    assert open_matrix(tmp_path / "x.parquet", "w").take(np.array([0])).tolist() == [[2.0]]

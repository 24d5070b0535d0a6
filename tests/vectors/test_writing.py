"""Vectors written block by block: what other libraries read is what was given."""

from pathlib import Path

import numpy as np
import pyarrow.feather
import pyarrow.parquet
import pytest
from safetensors.numpy import load_file

from flowbert.errors import UserError
from flowbert.vectors import write_vectors

X = np.random.default_rng(0).standard_normal((50, 5)).astype(np.float32)
TEXTS = [f"sentence {i}" for i in range(50)]


@pytest.mark.parametrize("dtype", ["float32", "int8", "uint8"])
def test_other_libraries_read_it(tmp_path: Path, dtype: str) -> None:
    x = (X * 30).astype(dtype) if dtype == "int8" else np.abs(X * 30).astype(dtype)
    for suffix in (".npy", ".safetensors", ".parquet", ".feather", ".arrow"):
        write_vectors(tmp_path / f"x{suffix}", [x[:20], x[20:]], x.shape, dtype, TEXTS)
    tables = {".npy": np.load(tmp_path / "x.npy"), ".safetensors": load_file(tmp_path / "x.safetensors")["embedding"]}
    table = pyarrow.parquet.read_table(tmp_path / "x.parquet")
    for columns in (table, pyarrow.feather.read_table(tmp_path / "x.feather")):
        assert columns.column("sentence").to_pylist() == TEXTS
        tables[str(len(tables))] = np.stack(columns.column("embedding").to_numpy())
    for name, found in tables.items():
        assert found.dtype == np.dtype(dtype), name
        np.testing.assert_array_equal(found, x, name)


def test_a_file_is_there_when_it_is_whole(tmp_path: Path) -> None:
    def broken() -> object:
        yield X
        raise RuntimeError("stop")

    for suffix in (".npy", ".parquet", ".arrow"):
        with pytest.raises(RuntimeError, match="stop"):
            write_vectors(tmp_path / f"x{suffix}", broken(), (100, 5), "float32")  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_an_unknown_ending_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"output: received '.*x.txt'; allowed: a file ending in .npy"):
        write_vectors(tmp_path / "x.txt", [X], X.shape, "float32")

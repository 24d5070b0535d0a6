"""A table of vectors as an encoder: rows by number, every bad row named, bounded in memory."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from flowbert.errors import UserError
from flowbert.vectors import VectorCorpus, VectorTable

X = np.random.default_rng(0).standard_normal((9000, 4)).astype(np.float32)


def test_sentences_are_row_numbers() -> None:
    table = VectorTable.open(X)
    seen: list[int] = []
    np.testing.assert_array_equal(table.encode(["3", "8999", "3"], on_batch=seen.append), X[[3, 8999, 3]])
    assert seen == [3]
    for wrong in ("9000", "-1", "1.0", "", "a", "²", " 1"):
        with pytest.raises(UserError, match=r"received row '.*'; allowed: 0 to 8999"):
            table.encode(["0", wrong])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300])
@pytest.mark.parametrize("suffix", [".npy", ".parquet"])
def test_the_first_bad_row_is_named_with_the_file(tmp_path: Path, value: float, suffix: str) -> None:
    x = X.astype(np.float64)
    x[[8500, 8900], 2] = value
    path = tmp_path / f"x{suffix}"
    np.save(path, x) if suffix == ".npy" else pyarrow.parquet.write_table(pyarrow.table({"v": list(x)}), path)
    table = VectorTable.open(path)
    for read in (lambda: table.digest, lambda: table.take([3, 8900, 8500]), lambda: table.encode(["8500"])):
        with pytest.raises(UserError, match=rf"x\{suffix}: row 8500 holds NaN or infinite values"):
            read()
    assert len(table.take([8499, 8501])) == 2


def test_the_largest_numbers_of_float32_are_finite() -> None:
    assert VectorTable.open(np.full((3, 2), np.finfo(np.float32).max)).digest


def test_identity_is_the_numbers_not_the_file(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", X)
    np.save(tmp_path / "b.npy", X.astype(np.float64))
    keys = [VectorTable.open(each).key() for each in (tmp_path / "a.npy", tmp_path / "b.npy", X)]
    assert keys[0] == keys[1] == keys[2]
    other = X.copy()
    other[-1, -1] += 1
    assert VectorTable.open(other).key() != keys[0]
    assert VectorTable.open(X.reshape(-1, 2)).key() != keys[0]


def test_a_drawn_corpus_is_the_rows_of_its_numbers() -> None:
    corpus = VectorCorpus.all_of("all", VectorTable.open(X))
    drawn = corpus.sample(100, seed=1)
    rows = np.concatenate([block.numpy() for block in drawn.blocks()])
    assert (len(corpus), len(drawn), len(rows)) == (9000, 100, 100)
    places = [int(np.flatnonzero((row == X).all(axis=1))[0]) for row in rows]
    assert places == sorted(set(places))
    assert drawn.digest == corpus.sample(100, seed=1).digest
    assert len({corpus.digest, drawn.digest, corpus.sample(100, seed=2).digest}) == 3
    assert corpus.sample(9000, seed=0) is corpus


PASSES = """
import resource, sys
import numpy as np
import pyarrow.parquet
from flowbert import Whitening, encode_vectors
from flowbert.vectors import VectorTable, write_vectors

x = np.random.default_rng(0).standard_normal((10_000, 64), dtype=np.float32)

def use(rows):
    for suffix in (".npy", ".parquet"):
        write_vectors(f"{sys.argv[1]}/in{suffix}", (x for _ in range(rows // len(x))), (rows, 64), "float32")
        table, whitening = VectorTable.open(f"{sys.argv[1]}/in{suffix}"), Whitening(shrinkage=0.1)
        for _, block in table.blocks():
            whitening.partial_fit(block)
        assert whitening.moments.count == rows
    assert encode_vectors(table, f"{sys.argv[1]}/out.npy") == (rows, 64)

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

use(20_000)
before = peak()
use(150_000)
print(peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in KiB on Linux alone")
def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    """37 MiB of vectors are read and written within half of that beyond what a seventh of them takes."""
    done = subprocess.run([sys.executable, "-c", PASSES, str(tmp_path)], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 16

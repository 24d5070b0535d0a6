"""A corpus in shards gives the vectors of the whole, whoever reads which shard."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from flowbert import SentenceEncoder
from flowbert.cli import main
from flowbert.data.streams import stream_shards
from flowbert.errors import UserError
from flowbert.runs import encode_parts as module
from flowbert.runs.encode_parts import encode_parts
from flowbert.vectors import VectorTable

TEXTS = [f"A dog runs {number} miles." for number in range(25)]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "corpus"
    folder.mkdir()
    for number, start in enumerate(range(0, 25, 10)):
        texts = [*TEXTS[start : start + 10], "  "]
        table = pyarrow.table({"text": texts, "number": list(range(len(texts)))})
        pyarrow.parquet.write_table(table, folder / f"{number}.parquet", row_group_size=4)
    return folder


@pytest.fixture(scope="module")
def expected() -> np.ndarray:
    return SentenceEncoder.from_pretrained("builtin-sample").encode(TEXTS)


def test_shards_are_the_corpus(corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n\n two \n")
    (tmp_path / "b.tsv").write_text("text\tother\nthree\tx\n")
    for source, column, texts in (
        (f"{corpus}/*.parquet", "text", TEXTS),
        (f"hub:{corpus}", "text", TEXTS),
        (f"{tmp_path}/a.txt,{tmp_path}/b.tsv", "text", ["one", "two", "three"]),
    ):
        shards = stream_shards(source, column)
        assert len(shards) == (2 if len(texts) == 3 else 3)
        assert [text for shard in shards for text in shard.sentences()] == texts
    with pytest.raises(UserError, match="nothing"):
        stream_shards(f"hub:{corpus}", "nothing")
    with pytest.raises(UserError, match="received 0 in the column of sentences; allowed: text"):
        list(stream_shards(f"{corpus}/0.parquet", "number")[0].sentences())


def test_processes_write_what_one_writes(
    corpus: Path, tmp_path: Path, expected: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, one, two = f"{corpus}/*.parquet", tmp_path / "one", tmp_path / "two"
    main(["encode", "--input", source, "--column", "text", "--output", f"{one}/"])
    found = VectorTable.open(one / "manifest.json")
    np.testing.assert_allclose(found.take(range(25)), expected, atol=1e-5)
    for rank in (1, 0):  # the second process first: the first one joins
        process = SimpleNamespace(
            global_rank=rank,
            is_global_zero=rank == 0,
            world_size=2,
            barrier=lambda: None,
            broadcast=lambda shape: shape,
        )
        monkeypatch.setattr(module, "current", lambda process=process: process)
        assert encode_parts(source, two, column="text") == ((0, 0) if rank else (25, 128))
    assert sorted(path.name for path in one.iterdir()) == sorted(path.name for path in two.iterdir())
    for path in one.iterdir():
        assert path.read_bytes() == (two / path.name).read_bytes()


def test_it_goes_on_where_it_stopped(corpus: Path, tmp_path: Path, expected: np.ndarray) -> None:
    source, folder = f"{corpus}/*.parquet", tmp_path / "vectors"
    encode_parts(source, folder, column="text")
    (folder / "part-000001.json").unlink()  # as if it had been killed before
    before = {path.name: path.stat().st_ino for path in folder.glob("*.npy")}
    encode_parts(source, folder, column="text")
    after = {path.name: path.stat().st_ino for path in folder.glob("*.npy")}
    assert {name for name in before if before[name] != after[name]} == {"part-000001.npy"}
    np.testing.assert_allclose(VectorTable.open(folder / "manifest.json").take(range(25)), expected, atol=1e-5)


def test_mistakes_are_told(corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="counts: a corpus in parts is read once"):
        encode_parts(f"{corpus}/*.parquet", tmp_path / "v", column="text", encoder={"pooling": "idf"})
    with pytest.raises(SystemExit):
        main(["encode", "--input", f"{corpus}/0.parquet", "--output", f"{tmp_path}/v/", "--precision", "int8"])

"""Cached vectors are those of the encoder, whatever happens to the files and processes."""

import multiprocessing
import os
import random
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from encoders.tiny import SENTENCES, TOLERANCE
from flowbert.arrays import Floats
from flowbert.encoders import AveragedLayers, SentenceEncoder, encode_variants
from flowbert.errors import FlowbertWarning, UserError
from flowbert.vectors import EmbeddingCache, cache

BLOCK = 8


class CountingEncoder:
    """Vectors that tell their sentence, and the calls."""

    path = "counting"

    def __init__(self, name: str = "counting", dim: int = 3) -> None:
        self.dim = dim
        self.identity = {"name": name, "dim": dim, "layers": [1]}
        self.pass_key = name
        self.calls: list[list[str]] = []
        self.interrupt_at = -1
        self.kill_at = -1

    def encode(self, sentences: Sequence[str]) -> Floats:
        if len(self.calls) == self.interrupt_at:
            raise KeyboardInterrupt
        if len(self.calls) == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        self.calls.append(list(sentences))
        return expected(sentences, self.dim)

    def describe(self) -> dict[str, Any]:
        return {"path": self.path}

    def columns(self) -> dict[str, str]:
        return {"encoder": self.path}


def expected(sentences: Sequence[str], dim: int = 3) -> Floats:
    rows = [
        np.random.default_rng(list(text.encode())).normal(size=dim)
        for text in sentences
    ]
    return np.array(rows, dtype=np.float32).reshape(len(rows), dim)


def texts(count: int) -> list[str]:
    return [f"sentence {number}" for number in range(count)]


def files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.safetensors"))


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "BLOCK_ROWS", BLOCK)


@pytest.fixture(params=["files", "memory"])
def make(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Callable[[], EmbeddingCache]:
    one = EmbeddingCache(folder=False)
    return (
        (lambda: EmbeddingCache(tmp_path))
        if request.param == "files"
        else (lambda: one)
    )


def test_each_sentence_is_encoded_once(make: Callable[[], EmbeddingCache]) -> None:
    encoder = CountingEncoder()
    given = random.Random(0).choices(texts(21), k=60)
    assert np.array_equal(make().embed(encoder, given), expected(given))
    assert sorted(chain(*encoder.calls)) == sorted(set(given))
    assert max(map(len, encoder.calls)) == BLOCK
    calls = len(encoder.calls)
    more = [*given, "another", ""]
    assert np.array_equal(make().embed(encoder, more), expected(more))
    assert encoder.calls[calls:] == [["", "another"]]


def test_rows_by_index(make: Callable[[], EmbeddingCache]) -> None:
    given = [*texts(30), "sentence 3"]
    rows = make().rows(CountingEncoder(), given)
    all_rows = expected(given)
    assert rows.shape == (31, 3)
    assert len(rows) == 31
    order = np.random.default_rng(0).permutation(31)
    assert np.array_equal(rows[order[:11]], all_rows[order[:11]])
    assert np.array_equal(rows[5:9], all_rows[5:9])
    assert rows[order[:0]].shape == make().embed(CountingEncoder(), []).shape == (0, 3)
    assert np.array_equal(np.concatenate(list(rows.blocks())), all_rows)
    one = make()
    early = one.rows(CountingEncoder(), given)
    one.embed(CountingEncoder(), texts(60))  # rows stay valid while the cache grows
    assert np.array_equal(early[:], all_rows)


def test_variants_are_filled_by_one_pass(
    make: Callable[[], EmbeddingCache],
    bert: SentenceEncoder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parts = {k: bert.variant(layers=k) for k in (0, 1, 3)}
    pairs = [AveragedLayers(bert, layers) for layers in ((0, 3), (3, 1))]
    shared, passes = make(), []

    def counted(encoders: Any, sentences: Any, **options: Any) -> Any:
        passes.append((len(encoders), len(sentences)))
        return encode_variants(encoders, sentences, **options)

    monkeypatch.setattr(cache, "encode_variants", counted)
    shared.fill([*pairs, parts[3], bert.variant(pooling="cls")], SENTENCES)
    assert passes == [(4, len(SENTENCES))]
    for encoder in (*pairs, parts[3]):
        vectors = encoder.encode(SENTENCES)
        np.testing.assert_allclose(
            shared.embed(encoder, SENTENCES), vectors, atol=TOLERANCE
        )
    assert len(passes) == 1


# ------------------------------------------------------------------------------ files


def test_the_folder_is_that_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLOWBERT_CACHE", str(tmp_path / "cache"))
    EmbeddingCache().embed(CountingEncoder(), ["a"])
    assert len(files(tmp_path / "cache")) == 1
    monkeypatch.delenv("FLOWBERT_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert EmbeddingCache().folder == tmp_path / ".cache" / "flowbert"


def spoil(path: Path, change: str) -> None:
    content = bytearray(path.read_bytes())
    if change == "cut":
        content = content[: len(content) // 2]
    elif change == "empty":
        content.clear()
    elif change == "longer":
        content += b"\0"
    else:
        content[int(change)] ^= 0x01
    path.write_bytes(content)


@pytest.mark.parametrize(
    "change",
    [
        "cut",
        "empty",
        "longer",
        "0",
        "9",
        "40",
        "100",
        "200",
        "-1",
        "-20",
        "-100",
        "-150",
    ],
)
def test_a_damaged_file_is_encoded_again(change: str, tmp_path: Path) -> None:
    given = texts(20)
    EmbeddingCache(tmp_path).fill([CountingEncoder()], given)
    victim = files(tmp_path)[1]
    good = victim.read_bytes()
    spoil(victim, change)
    encoder = CountingEncoder()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        again = EmbeddingCache(tmp_path).embed(encoder, given)
    assert np.array_equal(again, expected(given))
    assert len(encoder.calls) == 1
    assert [str(victim) in str(warning.message) for warning in caught] == [True]
    assert victim.read_bytes() == good


def test_no_flipped_bit_gives_a_wrong_row(tmp_path: Path) -> None:
    given = texts(4)
    EmbeddingCache(tmp_path).fill([CountingEncoder()], given)
    (path,) = files(tmp_path)
    good = path.read_bytes()
    for place in range(0, len(good), 7):
        for other in files(tmp_path):
            other.unlink()
        content = bytearray(good)
        content[place] ^= 1 << (place % 8)
        path.write_bytes(content)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FlowbertWarning)
            again = EmbeddingCache(tmp_path).embed(CountingEncoder(), given)
        assert np.array_equal(again, expected(given)), place


def test_a_foreign_file_is_ignored(tmp_path: Path) -> None:
    EmbeddingCache(tmp_path).fill([CountingEncoder("one")], ["a"])
    (own,) = files(tmp_path)
    EmbeddingCache(tmp_path).fill([CountingEncoder("other")], ["a"])
    (other,) = set(files(tmp_path)) - {own}
    os.replace(other, own)
    encoder = CountingEncoder("one")
    with pytest.warns(FlowbertWarning, match="another encoder"):
        EmbeddingCache(tmp_path).embed(encoder, ["a"])
    assert encoder.calls == [["a"]]


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(
        UserError, match=f"^cache: {tmp_path / 'file'} cannot be written"
    ):
        EmbeddingCache(tmp_path / "file").fill([CountingEncoder()], ["a"])


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    encoder = CountingEncoder()
    shared = EmbeddingCache(tmp_path)
    shared.fill([encoder], texts(BLOCK))
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(UserError, match="No space left"):
            shared.fill([encoder], texts(20))
    assert len(files(tmp_path)) == 1, "neither a block nor a part of one is left"
    assert np.array_equal(shared.embed(encoder, texts(20)), expected(texts(20)))


# -------------------------------------------------------------- interruptions, processes


@pytest.mark.parametrize("calls", [0, 1, 2])
def test_an_interruption_loses_one_block(calls: int, tmp_path: Path) -> None:
    encoder = CountingEncoder()
    encoder.interrupt_at = calls
    with pytest.raises(KeyboardInterrupt):
        EmbeddingCache(tmp_path).fill([encoder], texts(20))
    assert len(files(tmp_path)) == calls
    encoder = CountingEncoder()
    assert np.array_equal(
        EmbeddingCache(tmp_path).embed(encoder, texts(20)), expected(texts(20))
    )
    assert len(encoder.calls) == 3 - calls


def fill_in_process(folder: Path, kill_at: int, results: Any) -> None:
    cache.BLOCK_ROWS = BLOCK
    encoder = CountingEncoder()
    encoder.kill_at = kill_at
    EmbeddingCache(folder).fill([encoder], texts(40))
    results.put(len(encoder.calls))


def test_a_killed_process_and_two_after_it(tmp_path: Path) -> None:
    context: Any = multiprocessing.get_context(
        "fork" if sys.platform == "linux" else "spawn"
    )
    results = context.Queue()
    killed = context.Process(target=fill_in_process, args=(tmp_path, 2, results))
    killed.start()
    killed.join(60)
    assert killed.exitcode == -signal.SIGKILL
    assert len(files(tmp_path)) == 2
    leftover = files(tmp_path)[0].with_name(".half.safetensors")
    leftover.write_bytes(b"half")
    processes = [
        context.Process(target=fill_in_process, args=(tmp_path, -1, results))
        for _ in "ab"
    ]
    for process in processes:
        process.start()
    calls = [results.get(timeout=60) for _ in processes]
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    assert sum(calls) == 3, "each of the other blocks was encoded once"
    assert len(files(tmp_path)) == 5
    assert np.array_equal(
        EmbeddingCache(tmp_path).embed(CountingEncoder(), texts(40)),
        expected(texts(40)),
    )


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_does_not_grow_with_what_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "BLOCK_ROWS", 4096)
    monkeypatch.setattr(
        CountingEncoder, "encode", lambda _, s: np.ones((len(s), 512), np.float32)
    )

    def resident() -> int:
        """Pages of this process, files that are mapped included."""
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf(
            "SC_PAGE_SIZE"
        )

    rows = EmbeddingCache(tmp_path).rows(CountingEncoder(dim=512), texts(30_000))
    next(rows.blocks())
    before = resident()
    for block in rows.blocks():
        assert block.all()
    # 61 MB were read, in blocks of 2 MB.
    assert resident() - before < 30_000 * 512 * 4 / 4

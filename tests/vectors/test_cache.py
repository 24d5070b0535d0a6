"""Cached vectors are those of the encoder, whatever happens to the files and processes."""

import multiprocessing
import os
import random
import shutil
import signal
import sqlite3
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from encoders.tiny import SENTENCES, TOLERANCE
from flowbert.arrays import Floats
from flowbert.encoders import SentenceEncoder
from flowbert.errors import FlowbertWarning, UserError
from flowbert.vectors import EmbeddingCache, cache, owners

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


def blocks(folder: Path) -> int:
    """Number of blocks that were published."""
    count = 0
    for path in folder.rglob("index.sqlite"):
        if not path.stat().st_size:  # of a process killed before it wrote anything
            continue
        with closing(sqlite3.connect(path)) as index:
            count += int(index.execute("SELECT COUNT(*) FROM blocks").fetchone()[0])
    return count


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "BLOCK_SENTENCES", BLOCK)


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
    assert np.array_equal(make().rows(encoder, given)[:], expected(given))
    assert sorted(chain(*encoder.calls)) == sorted(set(given))
    assert max(map(len, encoder.calls)) == BLOCK
    calls = len(encoder.calls)
    more = [*given, "another", ""]
    assert np.array_equal(make().rows(encoder, more)[:], expected(more))
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
    assert (
        rows[order[:0]].shape == make().rows(CountingEncoder(), [])[:].shape == (0, 3)
    )
    assert np.array_equal(np.concatenate(list(rows.blocks())), all_rows)
    one = make()
    early = one.rows(CountingEncoder(), given)
    one.rows(CountingEncoder(), texts(60))[:]  # rows stay valid while the cache grows
    assert np.array_equal(early[:], all_rows)


def test_variants_are_filled_by_one_pass(
    make: Callable[[], EmbeddingCache],
    bert: SentenceEncoder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parts = {k: bert.variant(layers=k) for k in (0, 1, 3)}
    pairs = [bert.variant(layers=layers, by_layer=True) for layers in ((0, 3), (3, 1))]
    shared, passes = make(), []

    read = SentenceEncoder.read

    def counted(self: Any, readouts: Any, sentences: Any, **options: Any) -> Any:
        passes.append((len(readouts), len(sentences)))
        return read(self, readouts, sentences, **options)

    monkeypatch.setattr(SentenceEncoder, "read", counted)
    shared.fill([*pairs, parts[3], bert.variant(pooling="cls")], SENTENCES)
    assert passes == [(4, len(SENTENCES))]
    monkeypatch.undo()
    for encoder in (*pairs, parts[3]):
        vectors = encoder.encode(SENTENCES)
        np.testing.assert_allclose(
            shared.rows(encoder, SENTENCES)[:], vectors, atol=TOLERANCE
        )


# ------------------------------------------------------------------------------ files


def test_the_folder_is_that_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLOWBERT_CACHE", str(tmp_path / "cache"))
    EmbeddingCache().rows(CountingEncoder(), ["a"])[:]
    assert blocks(tmp_path / "cache") == 1
    monkeypatch.delenv("FLOWBERT_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert EmbeddingCache().folder == tmp_path / ".cache" / "flowbert"


def spoil(path: Path, change: str | int) -> None:
    content = bytearray(path.read_bytes())
    if change == "cut":
        content = content[: len(content) // 2]
    elif change == "empty":
        content.clear()
    elif change == "longer":
        content += b"\0"
    else:
        content[int(change)] ^= 1 << (int(change) % 8)
    path.write_bytes(content)


def check(folder: Path, given: Sequence[str], calls: int | None = None) -> list[str]:
    """Vectors are right, now and afterwards; the warnings."""
    encoder = CountingEncoder()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        vectors = EmbeddingCache(folder).rows(encoder, given)[:]
    assert np.array_equal(vectors, expected(given))
    assert calls is None or len(encoder.calls) == calls
    again = CountingEncoder()
    assert np.array_equal(EmbeddingCache(folder).rows(again, given)[:], expected(given))
    assert not again.calls, "what was encoded again is kept"
    return [str(warning.message) for warning in caught]


@pytest.mark.parametrize(
    ("file", "change", "calls"),
    [
        ("rows.f32", "cut", 2),
        ("rows.f32", "empty", 3),
        ("rows.f32", "longer", 0),
        ("rows.f32", 100, 1),
        ("index.sqlite", "cut", 3),
        ("index.sqlite", "empty", 3),
        ("index.sqlite", 0, 3),
        ("index.sqlite", 100, 3),
    ],
)
def test_what_is_damaged_is_encoded_again(
    file: str, change: str | int, calls: int, tmp_path: Path
) -> None:
    given = texts(20)
    EmbeddingCache(tmp_path).fill([CountingEncoder()], given)
    (victim,) = tmp_path.rglob(file)
    spoil(victim, change)
    messages = check(tmp_path, given, calls)
    silent = change == "empty" and file == "index.sqlite"  # an index of nothing
    assert bool(messages) == (calls > 0 and not silent)
    assert all(str(victim.parent) in message for message in messages)


def test_no_flipped_bit_gives_a_wrong_row(tmp_path: Path) -> None:
    given = texts(12)
    EmbeddingCache(tmp_path / "good").fill([CountingEncoder()], given)
    (index,) = (tmp_path / "good").rglob("index.sqlite")
    content = index.read_bytes()
    used = [place for place, value in enumerate(content) if value]
    places = [("index.sqlite", place) for place in [*used[::25], *range(0, 9000, 1000)]]
    places += [("rows.f32", place) for place in range(0, 12 * 12, 7)]
    for number, (name, place) in enumerate(places):
        folder = tmp_path / str(number)
        shutil.copytree(tmp_path / "good", folder)
        (victim,) = folder.rglob(name)
        spoil(victim, place)
        check(folder, given)
        shutil.rmtree(folder)


def test_files_of_another_encoder_are_ignored(tmp_path: Path) -> None:
    for name in ("counting", "other"):
        EmbeddingCache(tmp_path).fill([CountingEncoder(name)], ["a"])
    own, other = (path.parent for path in sorted(tmp_path.rglob("rows.f32")))
    for file in ("rows.f32", "index.sqlite"):
        shutil.copy(own / file, tmp_path / file)
        os.replace(other / file, own / file)
        os.replace(tmp_path / file, other / file)
    for name in ("counting", "other"):
        encoder = CountingEncoder(name)
        with pytest.warns(FlowbertWarning, match="another encoder"):
            EmbeddingCache(tmp_path).rows(encoder, ["a"])[:]
        assert encoder.calls == [["a"]]


def test_the_home_folder_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a user id without an entry, in a container."""

    def missing(*_: object) -> None:
        raise KeyError("uid not found")

    monkeypatch.delenv("HOME")
    monkeypatch.delenv("FLOWBERT_CACHE", raising=False)
    monkeypatch.setattr("pwd.getpwuid", missing)
    with pytest.raises(UserError, match=r"^cache: received ~/.cache/flowbert, and the"):
        EmbeddingCache()
    assert EmbeddingCache(False).folder is None


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
    assert blocks(tmp_path) == 1
    assert np.array_equal(shared.rows(encoder, texts(20))[:], expected(texts(20)))


# -------------------------------------------------------------- interruptions, processes


@pytest.mark.parametrize("calls", [0, 1, 2])
def test_an_interruption_loses_one_block(calls: int, tmp_path: Path) -> None:
    encoder = CountingEncoder()
    encoder.interrupt_at = calls
    kept = f"^{calls * BLOCK} of 20 sentences are in the cache"
    with pytest.raises(KeyboardInterrupt, match=kept):
        EmbeddingCache(tmp_path).fill([encoder], texts(20))
    assert blocks(tmp_path) == calls
    encoder = CountingEncoder()
    assert np.array_equal(
        EmbeddingCache(tmp_path).rows(encoder, texts(20))[:], expected(texts(20))
    )
    assert len(encoder.calls) == 3 - calls


CONTEXT: Any = multiprocessing.get_context(
    "fork" if sys.platform == "linux" else "spawn"
)


class SlowEncoder(CountingEncoder):
    """Takes its time, and says when it begins."""

    def __init__(self, began: Any, seconds: float) -> None:
        super().__init__()
        self.began = began
        self.seconds = seconds

    def encode(self, sentences: Sequence[str]) -> Floats:
        self.began.set()
        time.sleep(self.seconds)
        return super().encode(sentences)


def fill_in_process(
    folder: Path, given: list[str], kill_at: int, results: Any, seconds: float = 0.05
) -> None:
    vars(cache)["BLOCK_SENTENCES"] = BLOCK
    encoder = SlowEncoder(CONTEXT.Event(), seconds)
    encoder.kill_at = kill_at
    EmbeddingCache(folder).fill([encoder], given)
    results.put(list(chain(*encoder.calls)))


def test_a_killed_process_and_two_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owners, "SILENT_SECONDS", 1.0)
    monkeypatch.setattr(owners, "BEAT_SECONDS", 0.1)
    given = texts(40)
    results = CONTEXT.Queue()
    killed = CONTEXT.Process(target=fill_in_process, args=(tmp_path, given, 2, results))
    killed.start()
    killed.join(60)
    assert killed.exitcode == -signal.SIGKILL
    assert blocks(tmp_path) == 2
    processes = [
        CONTEXT.Process(target=fill_in_process, args=(tmp_path, given, -1, results))
        for _ in "ab"
    ]
    for process in processes:
        process.start()
    encoded = [results.get(timeout=60) for _ in processes]
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    assert len(set(chain(*encoded))) == 24, "what the killed one has published stays"
    assert sorted(chain(*encoded)) == sorted(set(chain(*encoded))), "each once"
    assert blocks(tmp_path) == 5
    check(tmp_path, given, 0)


def test_a_process_killed_at_any_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owners, "SILENT_SECONDS", 0.05)
    monkeypatch.setattr(owners, "BEAT_SECONDS", 0.01)
    given = texts(200)
    rng = random.Random(0)
    published = 0
    for _ in range(12):
        process = CONTEXT.Process(
            target=fill_in_process, args=(tmp_path, given, -1, CONTEXT.Queue(), 0)
        )
        process.start()
        time.sleep(rng.uniform(0, 0.15))
        process.kill()
        process.join(60)
        assert blocks(tmp_path) >= published
        published = blocks(tmp_path)
    check(tmp_path, given)


@pytest.fixture(params=[20.0])
def other(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """A process that encodes twenty sentences, its first block for some seconds."""
    began, results = CONTEXT.Event(), CONTEXT.Queue()

    def fill() -> None:
        encoder = SlowEncoder(began, request.param)
        EmbeddingCache(tmp_path).fill([encoder], texts(20))
        results.put(list(chain(*encoder.calls)))

    process = CONTEXT.Process(target=fill)
    process.start()
    assert began.wait(30)
    process.results = results
    yield process
    process.kill()
    process.join()


@pytest.mark.parametrize("other", [2.0], indirect=True)
def test_processes_share_the_work(tmp_path: Path, other: Any) -> None:
    encoder = CountingEncoder()
    vectors = EmbeddingCache(tmp_path).rows(encoder, texts(20))[:]
    assert np.array_equal(vectors, expected(texts(20)))
    theirs, ours = other.results.get(timeout=30), list(chain(*encoder.calls))
    assert theirs
    assert ours
    assert sorted([*theirs, *ours]) == sorted(texts(20)), "each once"


def test_others_do_not_wait_for_different_sentences(tmp_path: Path, other: Any) -> None:
    encoder, given = CountingEncoder(), [f"another {number}" for number in range(20)]
    start = time.monotonic()
    assert np.array_equal(
        EmbeddingCache(tmp_path).rows(encoder, given)[:], expected(given)
    )
    assert time.monotonic() - start < 10
    assert other.is_alive()


def test_a_stopped_process_is_named_and_its_work_done(
    tmp_path: Path, other: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "PATIENCE_SECONDS", 0.1)
    monkeypatch.setattr(owners, "SILENT_SECONDS", 2.0)
    monkeypatch.setattr(owners, "BEAT_SECONDS", 0.1)
    os.kill(other.pid, signal.SIGSTOP)
    encoder = CountingEncoder()
    with pytest.warns(FlowbertWarning, match=f"waits for process {other.pid} on "):
        vectors = EmbeddingCache(tmp_path).rows(encoder, texts(20))[:]
    assert np.array_equal(vectors, expected(texts(20)))
    assert sorted(chain(*encoder.calls)) == sorted(texts(20))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_does_not_grow_with_what_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "BLOCK_SENTENCES", 4096)
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

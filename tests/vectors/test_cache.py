"""Cached vectors are those of the encoder, whatever happens to the files and processes."""

import multiprocessing
import os
import random
import signal
import sqlite3
import time
import warnings
from contextlib import closing
from itertools import chain
from operator import attrgetter
from typing import Any

import numpy as np
import pytest
import torch

from encoders.tiny import SENTENCES, assert_near
from flowbert.encoders import Embedder
from flowbert.encoders.passes import encode_together
from flowbert.vectors import EmbeddingCache, cache, store
from helpers import refused

BLOCK = 8
CONTEXT: Any = multiprocessing.get_context("fork")


class CountingEncoder(Embedder):
    """Vectors that tell their sentence, and the calls; ``before`` runs ahead of each call."""

    path = "counting"
    dim = 3

    def __init__(self, name="counting", before=lambda _: None):
        self.identity: Any = {"name": name}
        self.calls = []
        self.before = before

    def embed(self, sentences, on_batch=None):
        self.before(len(self.calls))
        self.calls.append(list(sentences))
        return expected(sentences)


def expected(sentences):
    seeds = [list(text.encode()) for text in sentences]
    rows = [np.random.default_rng(seed).normal(size=3) for seed in seeds]
    return np.array(rows, dtype=np.float32).reshape(len(rows), 3)


def texts(count):
    return [f"sentence {number}" for number in range(count)]


def stored(folder):
    """Number of vectors in the files."""
    count = 0
    for path in folder.rglob("*.sqlite"):
        with closing(sqlite3.connect(path)) as file:
            # Else of a process that was killed before it wrote anything.
            if file.execute("SELECT 1 FROM sqlite_master").fetchone():
                count += file.execute("SELECT COUNT(*) FROM vectors").fetchone()[0]
    return count


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr(cache, "BLOCK_SENTENCES", BLOCK)
    monkeypatch.setattr(store, "_KEYS_AT_ONCE", 7)


@pytest.fixture(params=["memory", "files", "temporary file"])
def make(request, tmp_path, monkeypatch):
    if request.param == "temporary file":
        monkeypatch.setattr(cache, "MEMORY_BYTES", 0)
    one = EmbeddingCache(folder=False)
    return lambda: one if request.param == "memory" else EmbeddingCache(tmp_path)


def test_each_sentence_is_encoded_once(make):
    encoder = CountingEncoder()
    given = random.Random(0).choices(texts(21), k=60)
    assert np.array_equal(make().rows(encoder, given)[:], expected(given))
    assert sorted(chain(*encoder.calls)) == sorted(set(given))
    assert max(map(len, encoder.calls)) == BLOCK
    calls = len(encoder.calls)
    more = [*given, "another", ""]
    assert np.array_equal(make().rows(encoder, more)[:], expected(more))
    assert encoder.calls[calls:] == [["", "another"]]


def test_what_is_read_once_and_a_string():
    memory, encoder = EmbeddingCache(False), CountingEncoder()
    once: Any = iter(["a", "b", "a"])
    found = memory.rows(encoder, once)[:]
    assert np.array_equal(found, expected(["a", "b", "a"]))
    assert np.array_equal(memory.rows(encoder, "a dog")[:], expected(["a dog"]))


def test_variants_are_filled_by_one_pass(make, bert, monkeypatch):
    monkeypatch.setattr(cache, "BLOCK_SENTENCES", len(SENTENCES))
    parts = {k: bert.read(layers=k) for k in (0, 1, 3)}
    pairs = [bert.read(layers=layers) for layers in ((0, 3), (3, 1))]
    for pair in pairs:
        pair.by_layer = True
    shared, passes = make(), []

    def counted(encoders, sentences, *options):
        passes.append((len(encoders), len(sentences)))
        return encode_together(encoders, sentences, *options)

    monkeypatch.setattr("flowbert.encoders.encoder.encode_together", counted)
    shared.fill([*pairs, parts[3], bert.read(pooling="cls")], SENTENCES)
    largest = pairs[0].read(pooling="max")
    largest.by_layer = True  # but it is not linear
    for encoder in (*pairs, parts[3], largest):
        rows = shared.rows(encoder, SENTENCES)[:]
        assert_near(rows, encoder.encode(SENTENCES))
    ours = [one for one in passes if one[0] > 1]
    assert ours == [(4, len(SENTENCES))]


# ------------------------------------------------------------------------------ files


def test_the_folder_is_that_of_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("FLOWBERT_CACHE", str(tmp_path / "cache"))
    EmbeddingCache().fill([CountingEncoder()], ["a"])
    assert stored(tmp_path / "cache") == 1
    monkeypatch.delenv("FLOWBERT_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert EmbeddingCache().folder == tmp_path / ".cache" / "flowbert"


def filled(folder, count, name="counting"):
    """The file of an encoder after it has encoded some sentences."""
    before = set(folder.glob("*.sqlite"))
    EmbeddingCache(folder).fill([CountingEncoder(name)], texts(count))
    (path,) = set(folder.glob("*.sqlite")) - before
    return path


def check(folder, count):
    """Vectors are right, now and afterwards; how many were encoded again, and the warnings."""
    encoder, again = CountingEncoder(), CountingEncoder()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        vectors = EmbeddingCache(folder).rows(encoder, texts(count))
    assert np.array_equal(vectors[:], expected(texts(count)))
    vectors = EmbeddingCache(folder).rows(again, texts(count))
    assert np.array_equal(vectors[:], expected(texts(count)))
    assert not again.calls, "what was encoded again is kept"
    return len(list(chain(*encoder.calls))), [str(each.message) for each in caught]


def test_no_damage_of_a_file_gives_a_wrong_vector(tmp_path):
    """But of the numbers themselves, which SQLite does not check."""
    good = filled(tmp_path / "good", 20).read_bytes()
    numbers = {
        good.index(row.tobytes()) + place
        for row in expected(texts(20))
        for place in range(row.nbytes)
    }
    folder = tmp_path / "changed"
    path = filled(folder, 20)
    # The header, the rows, and the index, of which most pages are empty.
    used = [place for place, value in enumerate(good) if value]
    flips = [*range(0, 100, 9), *used[::397], *range(0, len(good), 9001)]
    flips = [place for place in flips if place not in numbers]
    spoiled = [bytearray(good) for _ in flips]
    for changed, place in zip(spoiled, flips, strict=True):
        changed[place] ^= 1 << (place % 8)
    halves = [good[:100], good[: len(good) // 2], good[:-1], b"", b"not a database"]
    for content in [*halves, *map(bytes, spoiled)]:
        path.write_bytes(content)
        encoded, messages = check(folder, 20)
        # Without a message: a key that the index does not find is like a new one.
        assert encoded > 0 or not messages
        assert all(str(path) in message for message in messages)


def test_a_folder_that_is_only_read(tmp_path, monkeypatch):
    filled(tmp_path, 20)
    connect = sqlite3.connect

    def read_only(path, **options):
        return connect(f"file:{path}?mode=ro", uri=True, **options)

    monkeypatch.setattr(sqlite3, "connect", read_only)
    assert check(tmp_path, 20) == (0, [])
    refused(
        r"cannot be written .*readonly",
        EmbeddingCache(tmp_path).fill,
        [CountingEncoder()],
        ["another"],
    )


# -------------------------------------------------------------- interruptions, processes


@pytest.mark.parametrize("calls", [0, 1, 2])
def test_an_interruption_loses_one_block(calls, tmp_path):
    def interrupt(number):
        if number == calls:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match=r"^the cache has .* resumes$"):
        EmbeddingCache(tmp_path).fill([CountingEncoder(before=interrupt)], texts(20))
    assert stored(tmp_path) == calls * BLOCK
    assert check(tmp_path, 20) == (20 - calls * BLOCK, [])


def encode_in_process(folder, count, prepare=lambda: None, **options):
    """A process that encodes sentences, and then puts those that it encoded into its results."""
    results = CONTEXT.Queue()

    def fill():
        prepare()
        encoder = CountingEncoder(**options)
        EmbeddingCache(folder).fill([encoder], texts(count))
        results.put(list(chain(*encoder.calls)))

    process = CONTEXT.Process(target=fill, daemon=True)
    process.results = results
    process.start()
    return process


def test_a_killed_process_and_two_after_it(tmp_path):
    def kill(number):
        if number == 2:
            os.kill(os.getpid(), signal.SIGKILL)

    killed = encode_in_process(tmp_path, 40, before=kill)
    killed.join(60)
    assert killed.exitcode == -signal.SIGKILL
    assert stored(tmp_path) == 2 * BLOCK
    processes = [encode_in_process(tmp_path, 40) for _ in "ab"]
    encoded = [*chain(*(process.results.get(timeout=60) for process in processes))]
    assert len(encoded) == len(set(encoded)) == 40 - 2 * BLOCK, "each once"
    assert check(tmp_path, 40) == (0, [])


def test_another_process_is_waited_for(tmp_path, monkeypatch):
    began = CONTEXT.Event()

    def sleep(_):
        began.set()
        time.sleep(0.2)

    other = encode_in_process(tmp_path, 20, before=sleep)
    assert began.wait(30)
    # A process with another encoder does not wait.
    EmbeddingCache(tmp_path).fill([CountingEncoder("another")], texts(20))
    assert other.results.empty()
    monkeypatch.setattr(store, "WARN_AFTER_SECONDS", 0.05)
    encoded, (message,) = check(tmp_path, 20)
    assert encoded == 0
    assert f"waiting for process {other.pid} of" in message
    assert other.results.get(timeout=30)


def test_a_process_that_stands_still_is_not_waited_for(tmp_path, monkeypatch):
    began, ended = CONTEXT.Event(), CONTEXT.Event()

    def stop(_):
        began.set()
        ended.wait(60)

    other = encode_in_process(tmp_path, 20, before=stop)
    assert began.wait(30)
    monkeypatch.setattr(store, "WARN_AFTER_SECONDS", 0.1)
    monkeypatch.setattr(cache, "LONGEST_WAIT_SECONDS", 0.3)
    assert check(tmp_path, 20)[0] == 20
    ended.set()
    assert len(other.results.get(timeout=30)) == 20, "it adds what is there already"
    assert check(tmp_path, 20) == (0, [])


def set_backends(name, value):
    owner, _, last = name.rpartition(".")
    setattr(attrgetter(owner)(torch.backends) if owner else torch.backends, last, value)


PRECISIONS = [
    lambda: torch.set_float32_matmul_precision("medium"),
    lambda: set_backends("cuda.matmul.allow_bf16_reduced_precision_reduction", False),
    lambda: torch.set_default_dtype(torch.float64),
]
if hasattr(torch.backends, "fp32_precision"):  # torch 2.9
    PRECISIONS.append(lambda: set_backends("fp32_precision", "tf32"))


def test_vectors_of_another_precision_are_not_used(tmp_path):
    """Only those of the same order of sums must agree, so that threads do not count."""
    filled(tmp_path, 5)
    same = encode_in_process(
        tmp_path, 5, lambda: torch.use_deterministic_algorithms(True)
    )
    assert same.results.get(timeout=60) == []
    for prepare in PRECISIONS:
        process = encode_in_process(tmp_path, 5, prepare)
        assert len(process.results.get(timeout=60)) == 5
    assert check(tmp_path, 5) == (0, [])

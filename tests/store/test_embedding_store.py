import json
import multiprocessing
import os
import random
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from helpers.counting import DIM, CountingEncoder, add_three_times, make_sentences
from helpers.encoders import WORDS, make_encoder
from safetensors.numpy import save_file

from flowbert.encoders import SentenceEncoder
from flowbert.errors import FlowbertWarning, UserError
from flowbert.io.container import read_tensor
from flowbert.progress import Step, shown
from flowbert.store import embedding_store as store_module
from flowbert.store.base import Store, _digest_all
from flowbert.store.embedding_store import EmbeddingStore, MemoryStore


def shards(store: EmbeddingStore) -> list[Path]:
    return sorted(store.folder.glob("*.shard"))


@pytest.fixture(params=["disk", "memory"])
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[CountingEncoder], Store]:
    if request.param == "disk":
        return lambda encoder: EmbeddingStore(tmp_path, encoder, shard_rows=4)
    return lambda encoder: MemoryStore(encoder, shard_rows=4)


def test_each_distinct_sentence_is_encoded_once(make_store: Callable[[CountingEncoder], Store]) -> None:
    encoder = CountingEncoder()
    store = make_store(encoder)
    sentences = ["b", "a", "b", "", "été 東京 🙂", "e\u0301te", "été", "a"]
    first = store.embeddings(sentences)
    store.add(sentences[::-1])
    store.add(["new", "a"])
    encoded = [text for call in encoder.calls for text in call]
    assert sorted(encoded) == sorted({*sentences, "new"})
    assert len(store) == len(encoded)
    assert first[:, 0].tolist() == [len(text) for text in sentences]
    assert np.array_equal(first[0], first[2])
    rows = store.rows(sentences)
    assert rows.dtype == np.int64
    assert rows[0] == rows[2] != rows[1]
    assert store.take(rows).dtype == np.float32
    assert np.array_equal(store.take(rows[::-1]), first[::-1])


def test_order_and_repetition_of_the_input_do_not_matter(make_store: Callable[[CountingEncoder], Store]) -> None:
    encoder = CountingEncoder()
    sentences = make_sentences(21)
    make_store(encoder).add(random.Random(1).choices(sentences, k=40) + sentences[::-1])
    plan = sorted(sentences, key=lambda text: (len(text), text))
    assert encoder.calls == [plan[start : start + 4] for start in range(0, 21, 4)]


def test_rows_stay_valid_while_the_store_grows(make_store: Callable[[CountingEncoder], Store]) -> None:
    store = make_store(CountingEncoder())
    old = make_sentences(9)
    store.add(old)
    rows = store.rows(old)
    before = store.take(rows)
    store.add([f"new {i}" for i in range(30)])
    if isinstance(store, EmbeddingStore):
        store.refresh()
    assert np.array_equal(store.rows(old), rows)
    assert np.array_equal(store.take(rows), before)


def test_empty_input(make_store: Callable[[CountingEncoder], Store]) -> None:
    encoder = CountingEncoder()
    store = make_store(encoder)
    assert store.embeddings([]).shape == (0, DIM)
    assert len(store) == len(encoder.calls) == 0


def test_wrong_use(make_store: Callable[[CountingEncoder], Store]) -> None:
    store = make_store(CountingEncoder())
    store.add(["a"])
    with pytest.raises(KeyError, match="2 of 3 sentences were not added, first 'b'"):
        store.rows(["a", "b", "c"])
    for row in (-1, 1):
        with pytest.raises(IndexError, match="allowed: 0 to 0"):
            store.take([row])
    with pytest.raises(ValueError, match="rank is 2 with world_size 2; allowed: 0 to 1"):
        store.add(["a"], rank=2, world_size=2)
    with pytest.raises(UserError, match=r"'\\ud800' holds a lone surrogate"):
        store.add(["\ud800"])
    with pytest.raises(ValueError, match="shard_rows is 0; allowed: 1 or more"):
        MemoryStore(CountingEncoder(), shard_rows=0)


def test_progress_only_when_something_is_missing(
    make_store: Callable[[CountingEncoder], Store], steps: list[Step]
) -> None:
    store = make_store(CountingEncoder())
    with shown():
        store.add(make_sentences(10))
        store.add(make_sentences(10))
    store.add([*make_sentences(10), "another"])
    assert [(step.what, step.done, step.total) for step in steps] == [("Encoding", 10, 10)]


def test_second_run_encodes_nothing(tmp_path: Path) -> None:
    sentences = make_sentences(50)
    first = EmbeddingStore(tmp_path, CountingEncoder(), shard_rows=8).embeddings(sentences)
    encoder = CountingEncoder()
    assert np.array_equal(EmbeddingStore(tmp_path, encoder).embeddings(sentences), first)
    assert encoder.calls == []


def test_default_root_is_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOWBERT_CACHE", str(tmp_path / "cache"))
    store = EmbeddingStore(None, CountingEncoder())
    assert store.folder.parent == tmp_path / "cache"
    assert json.loads((store.folder / "key.json").read_text()) == {"name": "counting"}
    monkeypatch.delenv("FLOWBERT_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert EmbeddingStore(None, CountingEncoder()).folder.parent == tmp_path / "home" / ".cache" / "flowbert"


def test_encoders_do_not_mix(tmp_path: Path) -> None:
    one, two = (EmbeddingStore(tmp_path, CountingEncoder(name)) for name in ("one", "two"))
    one.add(["a"])
    two.refresh()
    assert one.folder != two.folder
    assert len(two) == 0


@pytest.mark.parametrize("fail_at_call", [0, 1, 3, 6])
def test_resumes_after_an_interruption(tmp_path: Path, fail_at_call: int) -> None:
    sentences = make_sentences(27)
    whole = EmbeddingStore(tmp_path / "whole", CountingEncoder(), shard_rows=4).embeddings(sentences)
    store = EmbeddingStore(tmp_path / "part", CountingEncoder(fail_at_call=fail_at_call), shard_rows=4)
    with pytest.raises(KeyboardInterrupt):
        store.add(sentences)
    assert len(store) == len(shards(store)) * 4 == fail_at_call * 4
    encoder = CountingEncoder()
    resumed = EmbeddingStore(tmp_path / "part", encoder, shard_rows=4)
    assert np.array_equal(resumed.embeddings(sentences), whole)
    assert len(encoder.calls) == 7 - fail_at_call


def test_an_interrupted_write_leaves_no_shard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = EmbeddingStore(tmp_path, CountingEncoder(), shard_rows=4)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            store.add(["a", "b"])
    assert len(store) == 0
    assert [path.name for path in store.folder.iterdir()] == ["key.json"]
    assert store.embeddings(["a", "b"]).shape == (2, DIM)


def test_leftovers_are_ignored_and_cleaned_once_nobody_can_be_writing_them(tmp_path: Path) -> None:
    folder = EmbeddingStore(tmp_path, CountingEncoder()).folder
    fresh, old = folder / ".fresh.abc.shard", folder / ".old.abc.shard"
    for path in (fresh, old):
        path.write_bytes(b"half a shard")
    os.utime(old, (time.time() - 3600,) * 2)
    assert len(EmbeddingStore(tmp_path, CountingEncoder())) == 0
    assert fresh.exists()
    assert not old.exists()


def _flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 0x01
    path.write_bytes(content)


def _after_use(root: Path, encoder: CountingEncoder, sentences: list[str]) -> EmbeddingStore:
    """A store that has looked at the embeddings of all these sentences, and encoded none."""
    store = EmbeddingStore(root, encoder, shard_rows=4)
    store.missing(sentences)
    return store


def _spoil_everywhere() -> list[tuple[str, Callable[[Path], object]]]:
    places = [0, 3, 9, 40, 100, 200, 300, -1, -20, -60, -100]
    cuts = [0, 5, 8, 50, 200]
    return [
        *((f"flip {place}", lambda path, place=place: _flip(path, place)) for place in places),
        *((f"cut {size}", lambda path, size=size: path.write_bytes(path.read_bytes()[:size])) for size in cuts),
        ("one byte less", lambda path: path.write_bytes(path.read_bytes()[:-1])),
        ("one byte more", lambda path: path.write_bytes(path.read_bytes() + b"\0")),
        ("other file", lambda path: path.write_text("hello")),
    ]


@pytest.mark.parametrize(
    ("name", "spoil"), _spoil_everywhere(), ids=lambda value: value if isinstance(value, str) else ""
)
def test_a_damaged_shard_is_set_aside_and_made_again(
    tmp_path: Path, name: str, spoil: Callable[[Path], object]
) -> None:
    sentences = make_sentences(10)
    store = EmbeddingStore(tmp_path, CountingEncoder(), shard_rows=4)
    good = store.embeddings(sentences)
    victim = shards(store)[1]
    spoil(victim)
    encoder = CountingEncoder()
    with pytest.warns(FlowbertWarning, match=f"{victim.name}: .*encoded again") as caught:
        again = _after_use(tmp_path, encoder, sentences)
    assert len(caught) == 1, name
    assert len(again) == 6
    assert np.array_equal(again.embeddings(sentences), good)
    assert len(encoder.calls) == 1
    assert victim in shards(again)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert EmbeddingStore(tmp_path, encoder).missing(sentences) == []


def test_foreign_shards_are_refused(tmp_path: Path) -> None:
    class Wide(CountingEncoder):
        dim = DIM + 1

        def encode(
            self, sentences: Sequence[str], *, on_batch: Callable[[int], None] | None = None
        ) -> npt.NDArray[np.float32]:
            return np.pad(super().encode(sentences, on_batch=on_batch), ((0, 0), (0, 1)))

    store = EmbeddingStore(tmp_path / "mine", CountingEncoder())
    other = EmbeddingStore(tmp_path / "other", CountingEncoder("other"))
    wide = EmbeddingStore(tmp_path / "wide", Wide())
    for foreign, message in ((other, "of another encoder"), (wide, r"are \[1, 4\] F32 instead of \[1, 3\] F32")):
        foreign.add(["a"])
        path = shards(foreign)[0]
        path.rename(store.folder / path.name)
        with pytest.warns(FlowbertWarning, match=message):
            store.refresh()
        assert len(store) == 0
        assert [file.suffix for file in store.folder.iterdir() if file.name != "key.json"] == [".rejected"]


def test_embeddings_are_mapped_from_the_file(tmp_path: Path) -> None:
    store = EmbeddingStore(tmp_path, CountingEncoder(), shard_rows=4)
    store.add(make_sentences(10))
    maps = [store._embeddings(shard) for shard in range(3)]
    assert all(isinstance(shard, np.memmap) and shard.mode == "r" for shard in maps)


@pytest.mark.parametrize("shard_rows", [5, 100])
@pytest.mark.parametrize("world_size", [2, 3, 7])
def test_several_processes_give_the_bits_of_one(tmp_path: Path, world_size: int, shard_rows: int) -> None:
    folder = make_encoder(tmp_path / "encoder")
    rng = random.Random(0)
    sentences = [" ".join(rng.choices(WORDS, k=rng.randint(0, 30))) for _ in range(103)]
    known = sentences[:20]

    def store(name: str) -> EmbeddingStore:
        return EmbeddingStore(tmp_path / name, SentenceEncoder.from_pretrained(str(folder)), shard_rows)

    single = store("single")
    single.add(known)
    expected = single.embeddings(sentences)
    memory = MemoryStore(single.encoder, shard_rows)
    memory.add(known)
    assert np.array_equal(memory.embeddings(sentences), expected)
    store("several").add(known)
    # Each opens the store only after the one before has finished: no order of events may change the plan.
    ranks = []
    for rank in range(world_size):
        ranks.append(store("several"))
        ranks[-1].add(sentences[rank:] + sentences[:rank], rank=rank, world_size=world_size)
    assert len(set(sentences)) == len(store("several"))
    for one in ranks:
        one.refresh()
        assert len(one) == len(single)
        assert np.array_equal(one.take(one.rows(sentences)), expected)


def test_processes_that_add_the_same_sentences_at_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=add_three_times, args=(tmp_path, start)) for start in (0, 0, 50)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    encoder = CountingEncoder()
    store = EmbeddingStore(tmp_path, encoder)
    sentences = make_sentences(200)
    assert store.embeddings(sentences)[:, 0].tolist() == [len(text) for text in sentences]
    assert encoder.calls == []


def test_small_remainders_share_a_file(tmp_path: Path) -> None:
    sentences = make_sentences(400)
    encoder = CountingEncoder()
    store = EmbeddingStore(tmp_path, encoder, shard_rows=20)
    store.add([text for i, text in enumerate(sentences) if i % 10])
    before, calls = len(shards(store)), len(encoder.calls)
    store.add(sentences)
    assert len(encoder.calls) - calls > 10, "every block that lacks a sentence is a call"
    assert len(shards(store)) - before == 2
    assert len(store) == 400


def test_memory_is_bounded_while_adding(tmp_path: Path) -> None:
    """No call and no array holds more than a shard and a block."""
    sizes: list[int] = []

    class Watching(EmbeddingStore):
        def _keep(self, digests: npt.NDArray[np.bytes_], embeddings: npt.NDArray[np.float32]) -> None:
            sizes.append(len(embeddings))
            super()._keep(digests, embeddings)

    encoder = CountingEncoder()
    Watching(tmp_path, encoder, shard_rows=10).add(make_sentences(1005))
    assert sizes == [10] * 100 + [5]
    assert max(len(call) for call in encoder.calls) == 10


def test_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"cannot write .*file.*: .*; allowed: a folder with space"):
        EmbeddingStore(tmp_path / "file", CountingEncoder())


def test_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = EmbeddingStore(tmp_path, CountingEncoder(), shard_rows=4)
    store.add(make_sentences(4))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(UserError, match=r"cannot write .*: No space left on device; allowed"):
            store.add(make_sentences(12))
    assert len(store) == 4
    assert sorted(path.name for path in store.folder.iterdir()) == sorted([shards(store)[0].name, "key.json"])


def test_a_text_is_its_utf8_bytes() -> None:
    store = MemoryStore(CountingEncoder())
    store.add(["caf\u00e9", "cafe\u0301", "a", "a ", "A"])
    assert len(store) == 5
    assert _digest_all(["a"]).dtype == "S16"


def test_rows_held_stay_right_when_another_shard_turns_out_damaged(tmp_path: Path) -> None:
    plan = sorted(make_sentences(40), key=lambda text: (len(text), text))
    store = EmbeddingStore(tmp_path, CountingEncoder(), shard_rows=4)
    good = store.embeddings(plan)
    damaged = [store._shards[block].path for block in range(0, 10, 3)]  # one block of the plan is one shard
    store = EmbeddingStore(tmp_path, CountingEncoder(), shard_rows=4)
    for victim in damaged:
        _flip(victim, -100)
        os.utime(victim, ns=(0, next(shard.stamp[1] for shard in store._shards if shard.path == victim)))
    healthy = [text for place, text in enumerate(plan) if place // 4 % 3]
    held = store.rows(healthy)
    expected = store.take(held)
    with pytest.warns(FlowbertWarning, match="tensors do not match their digest") as caught:
        store.add(plan)
    assert len(caught) == len(damaged)
    assert np.array_equal(store.take(held), expected)
    assert np.array_equal(store.rows(healthy), held)
    assert np.array_equal(store.embeddings(plan), good)
    assert len(store) == 40
    with pytest.raises(UserError, match=r"\.shard: damaged or gone; run again: its sentences are encoded again"):
        store.take(np.arange(store._starts[-1]))


def test_no_flip_and_no_cut_gives_a_wrong_row(tmp_path: Path) -> None:
    """Every byte of a shard: the rows are right, whatever is found damaged, and when."""
    sentences = make_sentences(6)
    store = EmbeddingStore(tmp_path, CountingEncoder(), shard_rows=8)
    good = store.embeddings(sentences)
    (victim,) = shards(store)
    content = victim.read_bytes()
    spoiled = [content[:size] for size in range(0, len(content), 41)]
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 1 << (place % 8)
        spoiled.append(bytes(changed))
    for number, bad in enumerate(spoiled):
        victim.write_bytes(bad)
        encoder = CountingEncoder()
        with pytest.warns(FlowbertWarning, match="encoded again"):
            assert np.array_equal(EmbeddingStore(tmp_path, encoder, shard_rows=8).embeddings(sentences), good), number
        assert len(encoder.calls) == 1
        assert victim.read_bytes() == content


def test_a_damaged_shard_in_a_folder_that_cannot_be_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sentences = make_sentences(4)
    store = EmbeddingStore(tmp_path, CountingEncoder())
    good = store.embeddings(sentences)
    _flip(shards(store)[0], -1 - 3 * DIM * 4)

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", refuse)
        with pytest.warns(FlowbertWarning, match="encoded again"):
            again = _after_use(tmp_path, CountingEncoder(), sentences)
    assert again.missing(sentences) == sentences
    assert np.array_equal(again.embeddings(sentences), good)


class _FailingFile:
    """An open file that fails after some reads, as on a network disk that goes away."""

    def __init__(self, file: Any, good_reads: int):
        self._file, self._left = file, good_reads

    def __enter__(self) -> "_FailingFile":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def _read(self, name: str, *arguments: Any) -> Any:
        if self._left == 0:
            raise OSError(5, "Input/output error")
        self._left -= 1
        return getattr(self._file, name)(*arguments)

    def read(self, *arguments: Any) -> Any:
        return self._read("read", *arguments)

    def readinto(self, *arguments: Any) -> Any:
        return self._read("readinto", *arguments)


@pytest.mark.parametrize("good_reads", [0, 1, 2])
def test_a_shard_that_cannot_be_read_stays_and_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, good_reads: int
) -> None:
    sentences = make_sentences(10)
    good = EmbeddingStore(tmp_path, CountingEncoder(), shard_rows=4).embeddings(sentences)
    store = EmbeddingStore(tmp_path, CountingEncoder(), shard_rows=4)
    before = shards(store)
    victim, plain = before[1], Path.open

    def failing(path: Path, *arguments: Any, **options: Any) -> Any:
        file = plain(path, *arguments, **options)
        return _FailingFile(file, good_reads) if path == victim else file

    message = rf"cannot read .*{victim.name}: Input/output error; the file stays as it is"
    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", failing)
        with pytest.raises(UserError, match=message):
            EmbeddingStore(tmp_path, CountingEncoder(), shard_rows=4)
        if good_reads == 0:
            with pytest.raises(UserError, match=message):
                store.rows(sentences)
    assert shards(store) == before
    encoder = CountingEncoder()
    for usable in (store, EmbeddingStore(tmp_path, encoder, shard_rows=4)):
        assert np.array_equal(usable.embeddings(sentences), good)
    assert encoder.calls == []


@pytest.mark.parametrize(("owner", "name"), [(Path, "open"), (os, "listdir")])
def test_a_permission_that_is_missing_rejects_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: object, name: str
) -> None:
    store = EmbeddingStore(tmp_path, CountingEncoder(), shard_rows=4)
    store.add(make_sentences(10))
    before = shards(store)

    def denied(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, denied)
        with pytest.raises(UserError, match=r"cannot read .*: Permission denied"):
            EmbeddingStore(tmp_path, CountingEncoder())
    assert shards(store) == before


_FEW_FILES = """
import resource, sys
from pathlib import Path
import numpy as np
from helpers.counting import CountingEncoder, make_sentences
from flowbert.store.embedding_store import EmbeddingStore
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
encoder = CountingEncoder()
stores = [EmbeddingStore(Path(sys.argv[1]) / name, encoder, shard_rows=4) for name in ("one", "two")]
sentences = make_sentences(500)
for store in stores:
    rows = store.rows(sentences)
    rng = np.random.default_rng(0)
    for _ in range(5):
        order = rng.permutation(500)
        assert store.take(rows[order])[:, 0].tolist() == [len(sentences[i]) for i in order]
assert encoder.calls == []
"""


def test_few_files_may_be_open(tmp_path: Path) -> None:
    """125 shards in each of two stores, 64 files."""
    for name in ("one", "two"):
        EmbeddingStore(tmp_path / name, CountingEncoder(), shard_rows=4).add(make_sentences(500))
    before = sorted(tmp_path.rglob("*"))
    assert len(before) > 250
    path = os.pathsep.join([str(Path(__file__).parents[1]), str(Path(__file__).parents[2])])
    command = [sys.executable, "-W", "error", "-c", _FEW_FILES, str(tmp_path)]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": path})
    assert sorted(tmp_path.rglob("*")) == before


def test_only_what_is_asked_for_is_verified_and_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sentences = sorted(make_sentences(40), key=lambda text: (len(text), text))
    EmbeddingStore(tmp_path, CountingEncoder(), shard_rows=4).add(sentences)
    checked: list[object] = []

    def counting(file: Any, entry: Any) -> bytearray:
        checked.append(file.name)
        return read_tensor(file, entry)

    monkeypatch.setattr(store_module, "read_tensor", counting)
    store = EmbeddingStore(tmp_path, CountingEncoder(), shard_rows=4)
    assert checked == []
    for _ in range(2):
        store.embeddings(sentences[4:12])
        assert len(set(checked)) == len(checked) == 2


def test_one_store_finds_damage_that_another_has_not_read_yet(tmp_path: Path) -> None:
    sentences = make_sentences(20)
    good = EmbeddingStore(tmp_path, CountingEncoder(), shard_rows=4).embeddings(sentences)
    late, finder = (EmbeddingStore(tmp_path, CountingEncoder(), shard_rows=4) for _ in range(2))
    for victim in shards(late)[:2]:
        _flip(victim, -100)
        os.utime(victim, ns=(0, next(shard.stamp[1] for shard in late._shards if shard.path == victim)))
    with pytest.warns(FlowbertWarning, match="encoded again"):
        assert np.array_equal(finder.embeddings(sentences), good)
    # This one takes the new files, although it knows the damaged ones by the same name.
    assert np.array_equal(late.embeddings(sentences), good)
    assert len(late) == len(finder) == 20
    assert len(list(finder.folder.glob("*.rejected"))) == 2


def test_processes_that_find_the_same_damage_at_once(tmp_path: Path) -> None:
    sentences = make_sentences(200)
    store = EmbeddingStore(tmp_path, CountingEncoder(), shard_rows=7)
    good = store.embeddings(sentences)
    for victim in shards(store)[::4]:
        _flip(victim, -100)
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=add_three_times, args=(tmp_path, 0)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    encoder = CountingEncoder()
    assert np.array_equal(EmbeddingStore(tmp_path, encoder, shard_rows=7).embeddings(sentences)[:, 0], good[:, 0])
    assert encoder.calls == []


def test_shards_of_the_older_format_are_left_alone(tmp_path: Path) -> None:
    """Another version of the program may be using them."""
    store = EmbeddingStore(tmp_path, CountingEncoder())
    content: dict[str, npt.NDArray[Any]] = {"digests": np.zeros((1, 16), np.uint8), "embeddings": np.zeros((1, DIM))}
    save_file(content, store.folder / "old.safetensors", {"format": "flowbert-embeddings-1", "key": "{}"})
    store.refresh()
    assert len(store) == 0
    assert (store.folder / "old.safetensors").is_file()

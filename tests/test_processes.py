"""What processes tell each other, and work that each does a share of: threads stand for processes here."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from threading import Barrier
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, distributed

from flowbert.calibration import Whitening
from flowbert.callbacks import WhiteningBaseline
from flowbert.cli.options import chosen_device
from flowbert.data.corpus import Corpus
from flowbert.datamodules.batches import BatchSampler, rows_in_order, shared_in_order
from flowbert.encoders import SentenceEncoder
from flowbert.encoders.counting import weigh_tokens
from flowbert.encoders.token_counts import TokenCounts
from flowbert.errors import UserError
from flowbert.modules import FlowModule
from flowbert.processes import (
    Group,
    Processes,
    _sharing_with,
    dealt,
    embed_shared,
    exchanged,
    gathered,
    joined,
    lost_process,
)
from flowbert.store.embedding_store import EmbeddingStore, MemoryStore
from flowbert.store.setting_stores import SettingStores

WORLD_SIZES = [1, 2, 3]


class Strategy:
    """Sends what one thread has to all."""

    def __init__(self, world_size: int) -> None:
        self._barrier = Barrier(world_size)
        self._sent: Any = None

    def on(self, rank: int) -> Any:
        def barrier(name: str = "") -> None:
            del name
            self._barrier.wait(20)

        def broadcast(mine: Any, source: int = 0) -> Any:
            if rank == source:
                self._sent = mine
            self._barrier.wait(20)
            found = self._sent
            self._barrier.wait(20)
            return found

        world_size = self._barrier.parties
        return SimpleNamespace(global_rank=rank, world_size=world_size, broadcast=broadcast, barrier=barrier)


def on_all(world_size: int, work: Callable[[Any], Any]) -> list[Any]:
    """Results of every process, given what it knows of them all."""
    strategy = Strategy(world_size)

    def run(rank: int) -> Any:
        return work(strategy.on(rank))

    with ThreadPoolExecutor(world_size) as pool:
        return list(pool.map(run, range(world_size)))


def trainer_of(processes: Any) -> Any:
    return SimpleNamespace(global_rank=processes.global_rank, world_size=processes.world_size, strategy=processes)


@pytest.mark.parametrize("world_size", WORLD_SIZES)
def test_every_process_has_what_each_has(world_size: int) -> None:
    found = on_all(world_size, lambda processes: list(exchanged(processes, processes.global_rank)))
    assert found == [list(range(world_size))] * world_size


@pytest.mark.parametrize("world_size", WORLD_SIZES)
def test_each_counts_the_tokens_of_a_share_and_all_have_those_of_all(world_size: int) -> None:
    corpus = Corpus.of("target", ["a dog runs", "a cat", "the cat sleeps", "a dog", "it rains"])
    encoders = [SentenceEncoder.from_pretrained("builtin-sample", pooling="idf") for _ in range(world_size)]

    def count(processes: Processes) -> TokenCounts | None:
        weigh_tokens(encoders[processes.global_rank], lambda: corpus, processes)
        return encoders[processes.global_rank].counts

    assert on_all(world_size, count) == [encoders[0].count_tokens(corpus.sentences, "target")] * world_size


@pytest.mark.parametrize("world_size", WORLD_SIZES)
@pytest.mark.parametrize("count", [1, 2, 7, 20])
def test_each_sentence_is_embedded_once_and_found_by_index(world_size: int, count: int) -> None:
    sentences = ["x" * (number * 7 % 20 + 1) + str(number) for number in range(count)]
    asked: list[str] = []

    def embed(texts: list[str]) -> Tensor:
        asked.extend(texts)
        return torch.tensor([[len(text), sentences.index(text)] for text in texts])

    found = on_all(world_size, lambda processes: embed_shared(processes, sentences, embed))
    for rows in found:
        assert rows.tolist() == [[len(text), number] for number, text in enumerate(sentences)]
    if count >= world_size:
        assert sorted(asked) == sorted(sentences)


@pytest.mark.parametrize("world_size", WORLD_SIZES)
def test_each_work_is_done_once(world_size: int) -> None:
    done: list[int] = []

    def work(number: int) -> int:
        done.append(number)
        return number**2

    works = [lambda number=number: work(number) for number in range(7)]
    found = on_all(world_size, lambda processes: dealt(processes, works, "Working"))
    assert found == [[number**2 for number in range(7)]] * world_size
    assert sorted(done) == list(range(7))


@pytest.mark.parametrize("world_size", [2, 3, 5])
def test_merged_whitening_is_that_of_one_process(world_size: int) -> None:
    rows = torch.randn(300, 8, generator=torch.Generator().manual_seed(0)) * torch.arange(1.0, 9.0) + 1000
    expected = Whitening().fit(rows)

    def fit(processes: Any) -> WhiteningBaseline:
        # The last process has nothing to read.
        shares = [*torch.tensor_split(rows, world_size - 1), rows[:0]]
        trainer = trainer_of(processes)
        trainer.datamodule = SimpleNamespace(
            corpus_chunks=lambda: [shares[trainer.global_rank]], corpus_rows=sum(map(len, shares))
        )
        callback, module = WhiteningBaseline(), None
        callback.on_fit_start(trainer, module)  # type: ignore[arg-type]
        return callback

    found = [callback.calibration for callback in on_all(world_size, fit)]
    for calibration in found:
        one, two = expected.moments, calibration.moments
        assert one is not None
        assert two is not None
        assert two.count == 300
        torch.testing.assert_close(two.mean, one.mean, rtol=1e-10, atol=0)
        torch.testing.assert_close(two.covariance(), one.covariance(), rtol=1e-10, atol=1e-10)
        assert two.ledoit_wolf_shrinkage() == pytest.approx(one.ledoit_wolf_shrinkage(), rel=1e-10)
        assert torch.equal(calibration.transform(rows), found[0].transform(rows))


def test_the_start_is_that_of_the_first_process() -> None:
    def start(processes: Any) -> dict[str, Tensor]:
        trainer = trainer_of(processes)
        sample = torch.randn(64, 8, generator=torch.Generator().manual_seed(trainer.global_rank))
        trainer.datamodule = SimpleNamespace(start_sample=lambda: sample, distinct_examples=lambda: 64)
        trainer.lightning_module = None
        module = FlowModule(dim=8, levels=1, depth=2)
        module._trainer = trainer
        module.on_fit_start()
        return {name: value.clone() for name, value in module.state_dict().items()}

    (alone,), (first, second) = on_all(1, start), on_all(2, start)
    for name, value in alone.items():
        assert torch.equal(first[name], value), name
        assert torch.equal(second[name], value), name


def test_a_memory_store_takes_over_what_others_have_encoded() -> None:
    sentences, asked = [f"sentence {number}" for number in range(50)], []

    class Lengths:
        dim = 1

        def key(self) -> dict[str, Any]:
            return {}

        def encode(self, texts: Any, *, on_batch: Any = None) -> Any:
            asked.extend(texts)
            return np.array([[int(text.split()[1])] for text in texts], dtype=np.float32)

    def fill(processes: Any) -> MemoryStore:
        store = MemoryStore(Lengths(), shard_rows=8)
        for some in (sentences[:30], sentences):  # what was sent before is not kept twice
            store.share(some, processes)
        return store

    for store in on_all(2, fill):
        assert store.embeddings(sentences).ravel().tolist() == list(range(50))
        assert len(store) == 50
    assert sorted(asked) == sorted(sentences)


@pytest.mark.parametrize("world_size", WORLD_SIZES)
def test_stores_of_several_settings_are_filled_by_all(
    world_size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flowbert.store.setting_stores._AT_ONCE", 4)
    sentences, asked = [f"sentence {number}" for number in range(50)], []

    class Digits:
        layer_dim = 1

        def select(self, settings: Any) -> None:
            self.settings = settings

        def key_of(self, setting: Any) -> dict[str, Any]:
            return {"digit": setting}

        def encode(self, texts: Any, *, on_batch: Any = None) -> Any:
            del on_batch
            asked.extend(texts)
            return np.array([[text.count(digit) for digit in self.settings] for text in texts], dtype=np.float32)

    def fill(processes: Any) -> list[list[float]]:
        stores = SettingStores(Digits(), lambda each: EmbeddingStore(tmp_path, each))
        for some in (sentences[:20], sentences):
            stores.expect(some, ["1", "2"])
            stores.fill(processes)
        return [stores.embeddings(sentences, [digit]).ravel().tolist() for digit in "12"]

    expected = [[float(text.count(digit)) for text in sentences] for digit in "12"]
    assert on_all(world_size, fill) == [expected] * world_size
    assert sorted(asked) == sorted(sentences)


@pytest.mark.parametrize("world_size", WORLD_SIZES)
@pytest.mark.parametrize("seconds", [0.0, 10.0])
def test_every_process_is_given_what_all_find(world_size: int, seconds: float) -> None:
    def find(processes: Any) -> list[int]:
        mine = range(processes.global_rank, 3 + processes.global_rank * 4, world_size)  # some find more than others
        return list(gathered(processes, mine, seconds))

    (first, *others) = on_all(world_size, find)
    assert sorted(first) == sorted(n for rank in range(world_size) for n in range(rank, 3 + rank * 4, world_size))
    assert all(other == first for other in others)


@pytest.mark.parametrize("world_size", WORLD_SIZES)
def test_what_one_cannot_do_is_told_in_all_behind_what_was_found(world_size: int) -> None:
    def work(rank: int) -> Any:
        yield rank
        if rank == world_size - 1:
            raise UserError("labels: received none")

    def find(processes: Any) -> list[int]:
        items = gathered(processes, work(processes.global_rank), 10.0)
        found = list(islice(items, world_size))
        with pytest.raises(UserError, match="labels: received none"):
            next(items)
        return found

    assert on_all(world_size, find) == [list(range(world_size))] * world_size


@pytest.mark.parametrize(("examples", "world_size"), [(5, 2), (7, 3), (3, 3), (100, 2)])
def test_every_process_has_batches_of_one_size(examples: int, world_size: int) -> None:
    parts = [list(BatchSampler([0] * examples, 8, 1, 0, rank, world_size)) for rank in range(world_size)]
    for batches in zip(*parts, strict=True):
        assert len({len(indices) for _, indices in batches}) == 1
        seen = [index for _, indices in batches for index in indices]
        assert len(seen) == len(set(seen)) > 0


@pytest.mark.parametrize("examples", [1, 2, 3, 10, 64, 65, 129, 1000])
@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_every_example_in_order_is_seen_once(examples: int, world_size: int) -> None:
    index = np.arange(100, 100 + examples)
    parts = [list(shared_in_order(lambda _, i: i, index, 32, Group(rank, world_size))) for rank in range(world_size)]
    assert len({len(batches) for batches in parts}) == 1
    assert all(batch for batches in parts for batch in batches)
    if examples >= world_size:
        assert sorted(row for batches in parts for batch in batches for row in batch) == index.tolist()
    else:
        assert parts == [[index.tolist()]] * world_size
    shares = [[torch.tensor(rows) for rows in batches] for batches in parts]
    assert rows_in_order(shares, examples).tolist() == index.tolist()


def test_which_errors_tell_of_a_lost_process() -> None:
    lost = "[third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:20354"
    assert lost_process(RuntimeError(lost))
    assert lost_process(distributed.DistNetworkError("recv, got 0 bytes"))
    assert lost_process(RuntimeError("[gloo] Timed out waiting 1000ms for recv operation to complete"))
    assert not lost_process(RuntimeError("tokens: no vector of 'igloo'"))
    assert not lost_process(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))


def test_a_group_that_cannot_be_made_leaves_nothing_connected(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: Any) -> None:
        raise RuntimeError("no route")

    called: list[str] = []
    monkeypatch.setattr(distributed, "init_process_group", lambda *_, **__: called.append("connected"))
    monkeypatch.setattr(distributed, "destroy_process_group", lambda: called.append("destroyed"))
    monkeypatch.setattr(distributed, "new_group", refuse)
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    with pytest.raises(UserError, match="processes: no route; allowed"), joined():
        pass
    assert called == ["connected", "destroyed"]


def test_a_process_takes_the_gpu_of_its_own_where_gpus_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", taken.append)
    monkeypatch.setenv("LOCAL_RANK", "3")
    chosen_device("cuda")  # alone
    with _sharing_with(Group(3, 4)):
        chosen_device("cpu")
        assert taken == []
        chosen_device("cuda")
    assert taken == [1]

"""The flow's data module: what is fitted on, what is held out, and what every process sees alike."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from helpers.data import make_data

from flowbert import SentenceEncoder
from flowbert.datamodules.embedding import EmbeddingDataModule
from flowbert.datamodules.examples import split_held_out
from flowbert.errors import UserError
from flowbert.processes import Group


@pytest.fixture(scope="module")
def encoder() -> SentenceEncoder:
    return SentenceEncoder.from_pretrained("builtin-sample")


def module(encoder: SentenceEncoder, corpus: Path, **options: object) -> EmbeddingDataModule:
    settings = {"corpus": str(corpus), "tasks": ["SAMPLE"], "store": "memory", "start_size": 8, **options}
    made = make_data(EmbeddingDataModule, encoder, **settings)
    made._to_encode = lambda: list(made.examples.columns[0])  # type: ignore[method-assign]  # the task is slow
    made.setup("fit")
    return made


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(f"a dog runs {i % 40} times" for i in range(60)) + "\n")
    return path


def test_no_held_out_sentence_is_fitted_on() -> None:
    sentences = [f"s{i % 30}" for i in range(100)]
    fitting, held = split_held_out(sentences, 0.2, seed=3)
    assert sorted([*fitting, *held]) == list(range(100))
    assert len({sentences[i] for i in held}) == 6
    assert not {sentences[i] for i in held} & {sentences[i] for i in fitting}
    assert np.array_equal(held, split_held_out(sentences, 0.2, seed=3)[1])
    assert not np.array_equal(held, split_held_out(sentences, 0.2, seed=4)[1])


def test_every_occurrence_is_fitted_on(encoder: SentenceEncoder, corpus: Path) -> None:
    chunks = torch.cat(list(module(encoder, corpus, held_out=0.0).corpus_chunks()))
    assert chunks.shape == (60, 128)
    np.testing.assert_allclose(chunks[0], chunks[40])


def test_batches_are_rows_of_the_corpus(encoder: SentenceEncoder, corpus: Path) -> None:
    made = module(encoder, corpus, held_out=0.1, batch_size=8)
    known = {tuple(row.tolist()) for row in torch.cat(list(made.corpus_chunks()))}
    batches = list(made.train_dataloader())
    assert all(batch.shape == (8, 128) for batch in batches)
    assert {tuple(row.tolist()) for batch in batches for row in batch} <= known
    train, held_out = made.val_dataloader()
    assert sum(map(len, train)) == len(made._fit_index)
    assert not {tuple(row.tolist()) for batch in held_out for row in batch} & known


def test_start_sample_depends_on_the_seed_alone(encoder: SentenceEncoder, corpus: Path) -> None:
    first, again, other = (module(encoder, corpus, seed=seed).start_sample() for seed in (0, 0, 1))
    assert first.shape == (8, 128)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_without_the_store_batches_are_tokens(encoder: SentenceEncoder, corpus: Path) -> None:
    inside, stored = module(encoder, corpus, store="none"), module(encoder, corpus)
    batch = next(iter(inside.train_dataloader()))
    expected = next(iter(stored.train_dataloader()))
    torch.testing.assert_close(encoder(batch), torch.from_numpy(expected), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(inside.start_sample(), stored.start_sample(), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"store": "disc"}, r"store: received 'disc'; allowed: disk, memory, none \(did you mean 'disk'"),
        ({"held_out": 0.6}, r"held_out: received 0.6; allowed: 0 to 0.5"),
        ({"batch_size": 1}, r"batch_size: received 1; allowed: at least 2"),
        ({"start_size": 0}, r"start_size: received 0; allowed: at least 2"),
    ],
)
def test_options_are_checked_at_once(options: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        make_data(EmbeddingDataModule, **options)


def test_corpus_too_small(tmp_path: Path) -> None:
    path = tmp_path / "one.txt"
    path.write_text("only one\n")
    with pytest.raises(UserError, match=r"one.txt has 1 sentences to fit on; allowed: at least 2"):
        make_data(EmbeddingDataModule, corpus=str(path)).load()


def test_a_store_that_machines_do_not_share_is_told(
    encoder: SentenceEncoder, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_data(EmbeddingDataModule, encoder, corpus=str(corpus), tasks=["SAMPLE"], store_dir=str(tmp_path / "s"))
    made._to_encode = lambda: list(made.examples.columns[0])  # type: ignore[method-assign]  # the task is slow
    # The only block belongs to the first process.
    second = SimpleNamespace(global_rank=1, world_size=2, barrier=lambda _: None)
    monkeypatch.setattr(EmbeddingDataModule, "processes", second)
    with pytest.raises(UserError, match=r"store_dir: 60 sentences that other processes have encoded are not in"):
        made.setup("fit")


def test_more_processes_than_examples_are_told(
    encoder: SentenceEncoder, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = module(encoder, corpus, held_out=0.0)
    monkeypatch.setattr(EmbeddingDataModule, "processes", Group(0, 61))
    with pytest.raises(UserError, match="devices: received 61 processes; allowed: at most 60"):
        made.train_dataloader()

"""The data of masked language modelling: tokenised once, the same tokens as the encoder's own."""

from typing import Any

import pytest
import torch
from helpers.data import make_data

from flowbert.data.sample import sample_corpus
from flowbert.datamodules.mlm import MLMDataModule
from flowbert.encoders import SentenceEncoder
from flowbert.errors import UserError

TEXT = sample_corpus()[:300]


@pytest.fixture(scope="module")
def encoder() -> SentenceEncoder:
    return SentenceEncoder.from_pretrained("builtin-sample", frozen=False)


def _data(encoder: SentenceEncoder, **options: Any) -> MLMDataModule:
    settings: dict[str, Any] = {"corpus": "builtin-sample", "tasks": "SAMPLE", "max_sentences": 300, **options}
    data = make_data(MLMDataModule, encoder, **settings)
    data.setup("fit")
    return data


def test_batches_are_those_of_the_tokenizer(encoder: SentenceEncoder) -> None:
    data = _data(encoder, max_length=encoder.max_length)
    sentences = data.examples.columns[0]
    for rows in ([0], [5, 3, 299], list(range(64))):
        expected, found = encoder.tokenize([sentences[i] for i in rows]), data.batch(0, rows)
        assert set(expected) == set(found)
        assert all(torch.equal(expected[name], found[name]) for name in expected)


def test_an_epoch_holds_every_fitting_sentence_at_most_once_and_no_held_out_one(encoder: SentenceEncoder) -> None:
    data = _data(encoder, batch_size=32, held_out=0.2)
    tokenizer: Any = encoder.tokenizer

    def texts(loader: Any) -> list[str]:
        rows = [row for batch in loader for row in batch["input_ids"]]
        return [tokenizer.decode(row, skip_special_tokens=True) for row in rows]

    trained, validated = texts(data.train_dataloader()), texts(data.val_dataloader())
    rows = tokenizer(data.corpus_sentences())["input_ids"]
    fitting = [tokenizer.decode(row, skip_special_tokens=True) for row in rows]
    assert len(trained) == len(fitting) // 32 * 32
    assert all(trained.count(text) <= fitting.count(text) for text in set(trained))
    assert validated
    assert not set(validated) & set(fitting)


def test_batches_hold_sentences_of_similar_length(encoder: SentenceEncoder) -> None:
    def padding(pool: int) -> float:
        masks = [batch["attention_mask"] for batch in _data(encoder, pool=pool, batch_size=16).train_dataloader()]
        real, all_positions = sum(int(mask.sum()) for mask in masks), sum(int(mask.numel()) for mask in masks)
        return 1 - real / all_positions

    assert padding(pool=32) < 0.05 < padding(pool=1)


def test_same_seed_same_batches_and_another_order_in_another_epoch(encoder: SentenceEncoder) -> None:
    def ids(seed: int, epoch: int = 0) -> list[list[int]]:
        loader: Any = _data(encoder, seed=seed).train_dataloader()
        loader.sampler.set_epoch(epoch)
        return [row for batch in loader for row in batch["input_ids"].tolist()]

    assert ids(3) == ids(3)
    assert ids(3) != ids(3, epoch=1)
    assert ids(3) != ids(4)


def test_sentences_are_cut_in_training_but_not_in_evaluation(encoder: SentenceEncoder) -> None:
    data = _data(encoder, max_length=6)
    assert all(batch["input_ids"].shape[1] <= 6 for batch in data.train_dataloader())
    torch.testing.assert_close(data.embeddings(TEXT[:3]), torch.from_numpy(encoder.encode(TEXT[:3])))
    assert max(encoder.lengths(TEXT)) > 6


def test_names_for_tables_tasks_and_prediction(encoder: SentenceEncoder) -> None:
    data = _data(encoder, held_out=0.1)
    assert data.examples.name == "builtin-sample"
    assert [task.name for task in data.tasks] == ["SAMPLE"]
    assert [sentence for batch in data.predict_dataloader() for sentence in batch] == list(data.examples.columns[0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"held_out": 0.6}, r"held_out: received 0\.6; allowed: 0 to 0\.5"),
        ({"pool": 0}, r"pool: received 0; allowed: at least 1"),
        ({"max_length": 0}, r"max_length: received 0; allowed: at least 1"),
        ({"max_sentences": 0}, r"max_sentences: received 0"),
        ({"corpus": "targt"}, r"corpus: received 'targt'.*did you mean 'target'"),
        ({"batch_size": 301, "held_out": 0.0}, r"batch_size: received 301, but builtin-sample has 300"),
    ],
)
def test_bad_options(encoder: SentenceEncoder, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        _data(encoder, **options)

"""Pairs and triples as chunks of token features, and what a user can get wrong there."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.data import Data, make_data

from flowbert.data.nli import LABELS, load_nli
from flowbert.data.sample import sample_corpus, sample_pairs
from flowbert.datamodules.contrastive import ContrastiveDataModule
from flowbert.datamodules.siamese import SiameseDataModule
from flowbert.encoders import SentenceEncoder
from flowbert.errors import UserError


@pytest.fixture(scope="module")
def encoder() -> SentenceEncoder:
    torch.set_num_threads(1)
    return SentenceEncoder.from_pretrained("builtin-sample", frozen=False)


def _ready(encoder: SentenceEncoder, kind: type[Data], **options: Any) -> Data:
    data = make_data(kind, encoder, tasks="SAMPLE", **options)
    data.setup("fit")
    return data


def _texts(batch: dict[str, Any], encoder: SentenceEncoder) -> list[list[str]]:
    """Sentences of a batch again, side by side, in the tokenizer's spelling."""
    tokenizer: Any = encoder.tokenizer
    rows = [ids for chunk in batch["chunks"] for ids in chunk["input_ids"]]
    return [[tokenizer.decode(rows[place], skip_special_tokens=True) for place in side] for side in batch["rows"]]


def _spelled(sentences: Any, encoder: SentenceEncoder, length: int = 32) -> list[str]:
    tokenizer: Any = encoder.tokenizer
    return [
        tokenizer.decode(tokenizer(s, truncation=True, max_length=length)["input_ids"], skip_special_tokens=True)
        for s in sentences
    ]


def test_dropout_pairs_are_the_sentence_twice(encoder: SentenceEncoder) -> None:
    data = _ready(encoder, ContrastiveDataModule, corpus="builtin-sample", max_sentences=300, batch_size=32)
    batches = list(data.train_dataloader())
    assert len(batches) == 300 // 32
    for batch in batches:
        first, second = _texts(batch, encoder)
        assert first == second
        assert len(first) == 32
    assert data.examples.name == "builtin-sample"
    assert [task.name for task in data.tasks] == ["SAMPLE"]


def test_triples_stay_together(encoder: SentenceEncoder) -> None:
    data = _ready(encoder, ContrastiveDataModule, corpus="nli", positive="entailment", max_sentences=200, batch_size=16)
    triples = {tuple(_spelled(triple, encoder)) for triple in load_nli("builtin-sample").triples()}
    for batch in data.train_dataloader():
        assert set(zip(*_texts(batch, encoder), strict=True)) <= triples
    pairs = _ready(
        encoder, ContrastiveDataModule, corpus="nli", positive="entailment", hard_negatives=False, batch_size=16
    )
    assert pairs.examples is not None
    assert len(pairs.examples.columns) == 2
    assert len(pairs.examples) == sum(label == "entailment" for label in load_nli("builtin-sample").labels)


def test_next_sentences_follow_each_other_also_in_a_subset() -> None:
    data = make_data(ContrastiveDataModule, corpus="builtin-sample", positive="next_sentence", max_sentences=100)
    data.load()
    assert len(data.examples) > 0
    following = set(zip(sample_corpus()[:-1], sample_corpus()[1:], strict=True))
    assert set(zip(*data.examples.columns, strict=True)) <= following


@pytest.mark.parametrize("positive", ["crop", "word_deletion", "delete_one_word"])
def test_edits_depend_on_seed_epoch_and_example_alone(positive: str) -> None:
    def edited(seed: int, epoch: int, indices: list[int]) -> list[str]:
        data = make_data(
            ContrastiveDataModule,
            corpus="builtin-sample",
            positive=positive,
            positive_rate=0.3,
            max_sentences=None,
            seed=seed,
        )
        data.load()
        anchors, positives = data.texts(epoch, indices)
        assert anchors == [sample_corpus()[i] for i in indices]
        assert all(set(p.split()) < set(a.split()) or len(p) < len(a) for a, p in zip(anchors, positives, strict=True))
        return positives

    assert edited(0, 0, [5, 9]) == edited(0, 0, [9, 5])[::-1]
    assert len({tuple(edited(0, 0, [5, 9])), tuple(edited(0, 1, [5, 9])), tuple(edited(1, 0, [5, 9]))}) > 1


def test_siamese_pairs_carry_their_class(encoder: SentenceEncoder) -> None:
    data = _ready(encoder, SiameseDataModule, source="nli", max_sentences=300)
    nli = load_nli("builtin-sample")
    labels = {
        tuple(_spelled(pair, encoder)): LABELS.index(label)
        for *pair, label in zip(nli.premises, nli.hypotheses, nli.labels, strict=True)
    }
    for batch in data.train_dataloader():
        assert [labels[pair] for pair in zip(*_texts(batch, encoder), strict=True)] == batch["targets"].tolist()


def test_siamese_scores_are_scaled_to_one(encoder: SentenceEncoder) -> None:
    data = _ready(encoder, SiameseDataModule, source="sts", batch_size=32)
    scores = {tuple(_spelled(pair, encoder)): score for *pair, score in sample_pairs("train")}
    batch = next(iter(data.train_dataloader()))
    expected = [scores[pair] / 5 for pair in zip(*_texts(batch, encoder), strict=True)]
    np.testing.assert_allclose(batch["targets"].numpy(), expected, rtol=1e-6)
    assert batch["targets"].dtype == torch.float32


def test_training_cuts_and_evaluation_does_not(tmp_path: Path, encoder: SentenceEncoder) -> None:
    corpus = tmp_path / "long.txt"
    corpus.write_text("\n".join(" ".join(sample_corpus()[i : i + 8]) for i in range(40)))
    data = _ready(encoder, ContrastiveDataModule, corpus=str(corpus), batch_size=8, max_length=12)
    batch = next(iter(data.train_dataloader()))
    (chunk,) = batch["chunks"]
    assert chunk["input_ids"].shape[1] == 12
    assert set(chunk["input_ids"][:, -1].tolist()) == {encoder.tokenizer.sep_token_id}
    assert encoder.max_length == 128
    sentence = corpus.read_text().splitlines()[0]
    assert encoder.lengths([sentence])[0] > 60
    np.testing.assert_array_equal(data.embeddings([sentence]).numpy(), encoder.encode([sentence]))


def test_little_padding_is_left(encoder: SentenceEncoder) -> None:
    def padding(**options: Any) -> float:
        data = _ready(
            encoder, ContrastiveDataModule, corpus="builtin-sample", max_sentences=2000, batch_size=64, **options
        )
        chunks = [chunk["attention_mask"] for batch in data.train_dataloader() for chunk in batch["chunks"]]
        return float(1 - sum(c.sum().item() for c in chunks) / sum(c.numel() for c in chunks))

    assert padding(pool=32) < 0.03
    assert padding() < 0.15


def test_held_out_sentences_are_not_trained_on(encoder: SentenceEncoder) -> None:
    data = _ready(
        encoder, ContrastiveDataModule, corpus="builtin-sample", max_sentences=500, held_out=0.1, batch_size=32
    )
    trained = {text for batch in data.train_dataloader() for text in _texts(batch, encoder)[0]}
    held = {text for batch in data.val_dataloader() for text in _texts(batch, encoder)[0]}
    assert len(held) >= 32
    assert not trained & held
    assert data.examples.name == "builtin-sample"
    assert 440 <= data.fitted_examples < 500
    fixed = [[batch["rows"].tolist() for batch in data.val_dataloader()] for _ in range(2)]
    assert fixed[0] == fixed[1]


def test_corpus_chunks_count_a_repeated_side_once(encoder: SentenceEncoder) -> None:
    data = _ready(encoder, ContrastiveDataModule, corpus="builtin-sample", max_sentences=70)
    assert sum(len(chunk) for chunk in data.corpus_chunks()) == data.corpus_rows == 70
    data = _ready(encoder, ContrastiveDataModule, corpus="nli", positive="entailment", max_sentences=70)
    assert sum(len(chunk) for chunk in data.corpus_chunks()) == data.corpus_rows == 210


def test_digest_tells_examples_apart() -> None:
    digests = set()
    for options in ({}, {"max_sentences": 100}, {"positive": "entailment", "corpus": "nli"}):
        data = make_data(ContrastiveDataModule, **{"corpus": "builtin-sample", **options})
        data.load()
        digests.add(data.examples.digest)
    assert len(digests) == 3


def test_predict_gives_the_sentences_in_order(tmp_path: Path, encoder: SentenceEncoder) -> None:
    file = tmp_path / "some.txt"
    file.write_text("one dog\ntwo dogs\n")
    data = _ready(encoder, ContrastiveDataModule, corpus="builtin-sample", predict=str(file))
    assert list(data.predict_dataloader()) == [["one dog", "two dogs"]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 1}, r"batch_size: received 1, so that a sentence has no negatives; allowed: at least 2"),
        ({"positive": "dropuot"}, r"positive: received 'dropuot'; allowed: dropout, .*did you mean 'dropout'"),
        ({"positive_rate": 1.0}, r"positive_rate: received 1.0; allowed: above 0 and below 1"),
        ({"positive": "entailment"}, r"needs corpus nli, received 'target'"),
        ({"positive": "mlm"}, r"mlm_path: received nothing"),
        ({"held_out": 0.9}, r"held_out: received 0.9; allowed: 0 to 0.5"),
        ({"max_length": 0}, r"max_length: received 0; allowed: at least 1"),
        ({"pool": 0}, r"pool: received 0"),
        ({"batch_size": 0}, r"batch_size: received 0; allowed: at least 1"),
    ],
)
def test_options_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        make_data(ContrastiveDataModule, **options)


def test_pairs_with_labels_need_no_other_pair_in_the_batch() -> None:
    assert make_data(SiameseDataModule, batch_size=1).batch_size == 1


def test_siamese_source_is_checked() -> None:
    with pytest.raises(UserError, match=r"source: received 'snli'; allowed: nli, sts, nli_triples"):
        make_data(SiameseDataModule, source="snli")


def test_corpus_smaller_than_the_batch(tmp_path: Path) -> None:
    corpus = tmp_path / "small.txt"
    corpus.write_text("a dog\na cat\na bird\n")
    data = make_data(ContrastiveDataModule, corpus=str(corpus))
    with pytest.raises(UserError, match=r"received 64, but .*small.txt has 3 examples to fit on; allowed: at most 3"):
        data.load()


def _write(path: Path, rows: list[dict[str, str]]) -> str:
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return str(path)


def test_bad_nli_files_get_one_line_each(tmp_path: Path) -> None:
    row = {"premise": "A dog runs.", "hypothesis": "It moves.", "label": "entails"}
    unknown = _write(tmp_path / "unknown.jsonl", [row])
    with pytest.raises(UserError, match=r"unknown.jsonl:1: label is 'entails'; allowed: entailment"):
        make_data(ContrastiveDataModule, corpus="nli", positive="entailment", nli=unknown).load()
    triple = {"sent0": "A dog runs.", "sent1": "It moves.", "hard_neg": " "}
    missing = _write(tmp_path / "missing.jsonl", [{**triple, "hard_neg": "It sleeps."}, triple])
    with pytest.raises(UserError, match=r"missing.jsonl:2: column 'hard_neg' is empty; allowed: a sentence"):
        make_data(ContrastiveDataModule, corpus="nli", positive="entailment", nli=missing).load()
    alone = _write(tmp_path / "alone.jsonl", [{**row, "label": "entailment"}])
    with pytest.raises(UserError, match="has no premise with both an entailment and a contradiction"):
        make_data(ContrastiveDataModule, corpus="nli", positive="entailment", nli=alone).load()


def test_data_without_an_encoder_say_so() -> None:
    data = make_data(ContrastiveDataModule, corpus="builtin-sample")
    data.setup("fit")
    with pytest.raises(UserError, match=r"no encoder was given; allowed: one here, or one of the module beside it"):
        data.batch(0, [0])

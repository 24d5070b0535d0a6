"""Batches of sentences: what they hold, their order, and what is held out."""

import pytest
import torch
from torch import Tensor

from flowbert.encoders import SentenceEncoder
from flowbert.methods.text import cut_by_length
from helpers import refused
from texts import examples, text_data

ENCODER = SentenceEncoder()


def tensors(batches):
    """All tensors of some batches, in order."""
    if isinstance(batches, Tensor):
        return [batches]
    parts = batches.values() if isinstance(batches, dict) else batches
    return [tensor for part in parts for tensor in tensors(part)]


def equal(first, second):
    pairs = zip(tensors(first), tensors(second), strict=True)
    return all(torch.equal(one, two) for one, two in pairs)


@pytest.mark.parametrize("counts", [[3, 9, 9, 1], [20] * 32 + [3] * 32, [9, 3] * 70])
def test_chunks_hold_every_sentence_without_much_padding(counts):
    mask = (torch.arange(20) < torch.tensor(counts)[:, None]).long()
    ids = torch.arange(mask.numel()).view_as(mask) * mask
    chunks, rows = cut_by_length({"input_ids": ids, "attention_mask": mask})
    assert len(chunks) == (1 if len(counts) < 64 else 2)
    padded = []
    for chunk in chunks:
        width = chunk["input_ids"].shape[1]
        assert width == chunk["attention_mask"].sum(1).max()
        padded.append(torch.nn.functional.pad(chunk["input_ids"], (0, 20 - width)))
    assert torch.equal(torch.cat(padded)[rows], ids)


@pytest.mark.parametrize("method", ["simcse", "sbert", "mlm"])
def test_rows_and_targets_belong_to_the_sentences(method):
    of = examples(method, size=80)
    data = text_data(ENCODER, of, batch_size=40)
    targets = {}
    if of.targets is not None:
        targets = dict(zip(of.columns[-1], of.targets, strict=True))
    keys = data.train_dataloader().sampler
    for (epoch, numbers), batch in zip(keys, data.train_dataloader(), strict=True):
        columns = data.sentences(epoch, numbers)
        vectors = ENCODER(*batch["chunks"])[batch["rows"]]
        for found, sentences in zip(vectors, columns, strict=True):
            # Other paddings round otherwise: 1e-5 is 100 units of vectors of about 1.
            expected = torch.from_numpy(ENCODER.encode(sentences))
            torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
        if targets:
            wanted = [targets[text] for text in columns[1]]
            assert batch["targets"].tolist() == wanted


def test_edits_depend_on_epoch_and_example_alone():
    data = text_data(ENCODER, examples(positive="crop:rate=0.4"))
    whole = data.sentences(0, range(32))[1]
    assert [data.sentences(0, [i])[1][0] for i in range(32)] == whole
    assert data.sentences(1, range(32))[1] != whole
    assert data.sentences(0, range(32))[0] == list(data.examples.columns[0])


@pytest.mark.parametrize(("held_out", "batches"), [(0.0, 4), (0.5, 2), (0.04, 3)])
def test_validation_is_always_the_same(held_out, batches):
    data = text_data(ENCODER, examples(positive="crop"), held_out=held_out)
    first = list(data.val_dataloader())
    # A single sentence has no negatives: then fitted ones are validated with.
    assert [batch["rows"].shape for batch in first] == [(2, 8)] * batches
    assert equal(first, list(data.test_dataloader()))


def test_workers_make_the_same_batches():
    alone, workers = (
        text_data(ENCODER, examples(positive="crop"), workers=count) for count in (0, 2)
    )
    assert equal(list(alone.val_dataloader()), list(workers.val_dataloader()))
    assert equal(list(alone.train_dataloader()), list(workers.train_dataloader()))


def test_description_and_prediction():
    of = examples("mlm", size=20)
    data = text_data(ENCODER, of, held_out=0.5, max_length=16)
    fitted = len(data.fitted)
    described = {"name": "sample", "digest": of.digest, "fitted": fitted}
    assert data.describe() == described
    assert data.hparams["max_length"] == 16
    batches = list(data.predict_dataloader())
    assert [text for batch in batches for text in batch] == list(of.columns[0])


def test_a_batch_has_not_more_than_all_examples():
    refused("batch_size: received 33", text_data, ENCODER, examples(), batch_size=33)

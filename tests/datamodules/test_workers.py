"""Batches that worker processes prepare are those of the process itself, also where a run goes on."""

from typing import Any

import pytest
import torch
from helpers.data import make_data, trainable_encoder

from flowbert.datamodules.contrastive import ContrastiveDataModule
from flowbert.datamodules.embedding import EmbeddingDataModule
from flowbert.datamodules.text import TextDataModule


def _batches(workers: int, start: int = 0) -> list[dict[str, Any]]:
    options = {"corpus": "builtin-sample", "max_sentences": 96, "batch_size": 16, "workers": workers}
    data: TextDataModule = make_data(ContrastiveDataModule, trainable_encoder(), positive="crop", **options)
    loader: Any = data.train_dataloader()
    loader.sampler.start_at((0, start))
    return list(loader)


def _equal(first: list[dict[str, Any]], second: list[dict[str, Any]]) -> bool:
    pairs = zip(first, second, strict=True)
    return all(
        torch.equal(a["rows"], b["rows"])
        and all(torch.equal(c["input_ids"], d["input_ids"]) for c, d in zip(a["chunks"], b["chunks"], strict=True))
        for a, b in pairs
    )


@pytest.mark.alone
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_two_workers_give_the_batches_of_none() -> None:
    alone = _batches(0)
    assert len(alone) == 6
    assert _equal(_batches(2), alone)
    assert _equal(_batches(2, start=4), alone[4:])


def test_workers_are_a_number() -> None:
    with pytest.raises(ValueError, match=r"workers: received -1; allowed: 0 or more"):
        make_data(EmbeddingDataModule, workers=-1)

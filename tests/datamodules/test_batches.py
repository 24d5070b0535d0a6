"""Batches of similar length: what is in them, and how little padding is left."""

import numpy as np
import pytest
import torch

from flowbert.datamodules.batches import BatchSampler, cut_by_length

LENGTHS = np.random.default_rng(0).integers(3, 33, 1003).tolist()


def _epoch(sampler: BatchSampler, epoch: int = 0) -> list[list[int]]:
    sampler.set_epoch(epoch)
    batches = list(sampler)
    assert all(number == epoch for number, _ in batches)
    return [indices for _, indices in batches]


@pytest.mark.parametrize("pool", [1, 4, 1000])
def test_full_batches_without_repetition(pool: int) -> None:
    sampler = BatchSampler(LENGTHS, 16, pool)
    batches = _epoch(sampler)
    assert len(batches) == len(sampler) == 62
    assert {len(batch) for batch in batches} == {16}
    assert len({i for batch in batches for i in batch}) == 62 * 16


def test_epochs_and_seeds_differ_and_repeat() -> None:
    sampler = BatchSampler(LENGTHS, 16, 4, seed=1)
    first, second = _epoch(sampler, 0), _epoch(sampler, 1)
    assert first != second
    assert first == _epoch(BatchSampler(LENGTHS, 16, 4, seed=1), 0)
    assert first != _epoch(BatchSampler(LENGTHS, 16, 4, seed=2), 0)
    left_out = [set(range(1003)) - {i for batch in batches for i in batch} for batches in (first, second)]
    assert left_out[0] != left_out[1]


def test_pools_leave_little_padding_and_mix_the_order() -> None:
    def padding(pool: int) -> float:
        batches = [np.array(LENGTHS)[batch] for batch in _epoch(BatchSampler(LENGTHS, 16, pool))]
        return float(sum(16 * b.max() - b.sum() for b in batches) / sum(b.sum() for b in batches))

    assert padding(32) < 0.04
    assert padding(1) > 0.5
    longest = [max(LENGTHS[i] for i in batch) for batch in _epoch(BatchSampler(LENGTHS, 16, 32))]
    assert longest != sorted(longest)
    assert longest != sorted(longest, reverse=True)


def test_processes_share_the_batches_of_one() -> None:
    whole = _epoch(BatchSampler(LENGTHS, 16, 4, seed=3))
    parts = [_epoch(BatchSampler(LENGTHS, 8, 4, seed=3, rank=rank, world_size=2)) for rank in range(2)]
    joined = [sorted(a + b) for a, b in zip(*parts, strict=True)]
    assert joined == [sorted(batch) for batch in whole]


def test_pack_finds_every_sentence_and_pads_less() -> None:
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(2, 30, (200,), generator=generator)
    mask = (torch.arange(30)[None] < lengths[:, None]).long()
    ids = mask * torch.arange(1, 201)[:, None]
    chunks, places = cut_by_length({"input_ids": ids, "attention_mask": mask})
    assert sum(chunk["input_ids"].numel() for chunk in chunks) < 1.25 * lengths.sum() < 0.9 * mask.numel()
    assert min(len(chunk["input_ids"]) for chunk in chunks) >= 32
    numbers = torch.cat([chunk["input_ids"][:, 0] for chunk in chunks])
    assert numbers[places].tolist() == list(range(1, 201))
    for chunk in chunks:
        assert chunk["attention_mask"].sum(1).max() == chunk["attention_mask"].shape[1]
    assert sum(chunk["attention_mask"].sum().item() for chunk in chunks) == lengths.sum()


def test_pack_keeps_equal_lengths_together() -> None:
    chunks, places = cut_by_length({"attention_mask": torch.ones(500, 7, dtype=torch.long)})
    assert len(chunks) == 1
    assert places.tolist() == list(range(500))

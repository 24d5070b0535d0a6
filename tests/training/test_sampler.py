"""Batches of similar length: what is in them, on several processes, and how a run resumes."""

import numpy as np
import pytest

from flowbert.training.sampler import BatchLoader, BatchSampler

LENGTHS = np.random.default_rng(0).integers(3, 33, 203)


def epoch(sampler, number=0):
    sampler.start = number * len(sampler)
    batches = list(sampler)
    assert {first for first, _ in batches} == {number}
    return [indices for _, indices in batches]


@pytest.mark.parametrize("pool", [1, 4, 1000])
def test_full_batches_without_repetition(pool):
    sampler = BatchSampler(LENGTHS, 16, pool)
    batches = epoch(sampler)
    assert len(batches) == len(sampler) == 12
    assert {len(batch) for batch in batches} == {16}
    assert len({i for batch in batches for i in batch}) == 12 * 16


def test_epochs_and_seeds_differ_and_repeat():
    sampler = BatchSampler(LENGTHS, 16, 4, seed=1)
    first, second = epoch(sampler, 0), epoch(sampler, 1)
    assert first != second
    assert first == epoch(BatchSampler(LENGTHS, 16, 4, seed=1))
    assert first != epoch(BatchSampler(LENGTHS, 16, 4, seed=2))
    left_out = [
        set(range(203)) - {i for batch in each for i in batch}
        for each in (first, second)
    ]
    assert left_out[0] != left_out[1]


def test_pools_have_batches_of_similar_length_in_random_order():
    def padding(pool):
        batches = [LENGTHS[batch] for batch in epoch(BatchSampler(LENGTHS, 16, pool))]
        return float(
            sum(16 * b.max() - b.sum() for b in batches) / sum(map(np.sum, batches))
        )

    assert padding(12) < 0.1 < 0.5 < padding(1)
    longest = [max(LENGTHS[batch]) for batch in epoch(BatchSampler(LENGTHS, 16, 12))]
    assert longest not in (sorted(longest), sorted(longest, reverse=True))


@pytest.mark.parametrize("processes", [2, 4])
def test_processes_share_the_batches_of_one(processes):
    whole = epoch(BatchSampler(LENGTHS, 16, 4, seed=3))
    size = 16 // processes
    samplers = [
        BatchSampler(LENGTHS, size, 4, 3, rank, processes) for rank in range(processes)
    ]
    for batch, *parts in zip(whole, *map(epoch, samplers), strict=True):
        assert sorted(batch) == sorted(i for part in parts for i in part)


def test_fewer_examples_than_a_batch_are_one_batch():
    (batch,) = epoch(BatchSampler(LENGTHS[:5], 16))
    assert sorted(batch) == [0, 1, 2, 3, 4]
    assert [
        len(*epoch(BatchSampler(LENGTHS[:5], 16, 1, 0, rank, 2))) for rank in (0, 1)
    ] == [2, 2]


@pytest.mark.parametrize("workers", [0, 2])
def test_iterations_go_on_with_the_batch_after_the_last(workers):
    def loader():
        sampler = BatchSampler(LENGTHS, 16, seed=5)
        options = {"num_workers": workers, "persistent_workers": workers > 0}
        return BatchLoader(
            lambda number, indices: (number, indices), sampler, **options
        )

    whole = loader()
    sequence = [*whole, *whole]
    part = loader()
    cut = [batch for batch, _ in zip(part, range(7), strict=False)]
    assert part.state_dict() == {"batches": 8}  # the eighth was handed out, too
    part.load_state_dict({"batches": 7})
    assert [*cut, *part] == sequence[: 7 + 12]

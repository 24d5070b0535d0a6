"""Moments of rows in chunks and of merged parts."""

import random

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from flowbert.maps import Moments
from flowbert.vectors import moments as module
from helpers import refused, rows

DIM, BLOCK = 5, 32
X = torch.from_numpy(rows(23 * BLOCK + 7, DIM) + 10.0).float()
ROUNDING = 1e-13  # of float64 sums of 743 rows: 743 u


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    """Many blocks of few rows."""
    monkeypatch.setattr(module, "ROWS_PER_BLOCK", BLOCK)


def in_chunks(rng, x):
    """Moments of rows in chunks of any size."""
    moments, start = Moments(DIM), 0
    while start < len(x):
        end = start + rng.choice([0, 1, 9, BLOCK, 3 * BLOCK])
        moments.update(x[start:end])
        start = end
    return moments


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("count", [len(X), 2 * BLOCK, BLOCK - 1, 1])
def test_chunks_and_parts(count, seed):
    """The same bits in any chunks; merged parts are the whole up to rounding."""
    rng = random.Random(seed)
    whole, chunks = Moments(DIM).update(X[:count]), in_chunks(rng, X[:count])
    assert torch.equal(chunks.mean, whole.mean)
    assert torch.equal(chunks.covariance(), whole.covariance())
    assert torch.equal(chunks.mean_direction, whole.mean_direction)
    cuts = sorted(rng.randrange(count + 1) for _ in range(rng.randrange(9)))
    bounds = zip([0, *cuts], [*cuts, count], strict=True)
    parts = [in_chunks(rng, X[start:stop]) for start, stop in bounds]
    rng.shuffle(parts)
    merged = Moments.merge([parts[0], Moments.merge(parts[1:])] if cuts else parts)
    for each in (merged, whole):  # rows can be added to it
        assert each.update(X[:50]).count == count + 50
    assert merged.distinct == whole.distinct
    for name in ("mean", "mean_direction"):
        assert_allclose(
            getattr(merged, name), getattr(whole, name), rtol=ROUNDING, atol=ROUNDING
        )
    assert_allclose(
        merged.covariance(), whole.covariance(), rtol=0, atol=100 * ROUNDING
    )
    everything = torch.cat([X[:count], X[:50]]).double()
    assert_allclose(whole.mean, everything.mean(0))
    assert_allclose(whole.covariance(), np.cov(everything.T), rtol=1e-9, atol=1e-9)


def test_distinct_rows_are_counted_up_to_what_is_enough():
    x = torch.from_numpy(rows(30, 4))
    moments = Moments(4).update(x).update(x[:10].float().double())
    assert moments.distinct == 22 == moments.enough
    zeros = torch.zeros(1, 4)
    few = Moments(4).update(x[:5]).update(x[:5]).update(zeros).update(-zeros)
    assert few.distinct == 6


def test_the_rest_of_a_block_is_not_what_the_caller_changes():
    given = X[:10].clone()
    moments = Moments(DIM).update(given)
    given.zero_()
    assert torch.equal(moments.mean, Moments(DIM).update(X[:10]).mean)


@pytest.mark.parametrize("cut", [1, BLOCK, 5 * BLOCK + 3])
def test_saved_moments_go_on(cut, tmp_path):
    """What is added after loading counts like what is added at once."""
    file = tmp_path / "corpus.moments"
    Moments(DIM).update(X[:cut]).save(file)
    loaded = Moments.load(file)
    assert (loaded.count, loaded.distinct) == (cut, min(cut, loaded.enough))
    whole, grown = Moments(DIM).update(X), loaded.update(X[cut:])
    assert (grown.count, grown.distinct) == (whole.count, whole.distinct)
    for name in ("mean", "mean_direction"):
        assert_allclose(getattr(grown, name), getattr(whole, name), rtol=ROUNDING)
    assert_allclose(grown.covariance(), whole.covariance(), atol=100 * ROUNDING)
    grown.save(file)
    assert torch.equal(Moments.load(file).covariance(), grown.covariance())
    refused("rows: received none", Moments(DIM).save, tmp_path / "empty")
    assert [*tmp_path.iterdir()] == [file]


def test_arrays_and_tensors_are_the_same_rows():
    expected = Moments(DIM).update(X)
    odd = X.numpy()[::-1]
    for given in (
        X.numpy(),
        X.double(),
        X.tolist(),
        odd[::-1],
        odd.astype(">f4")[::-1],
    ):
        moments = Moments(DIM).update(given)
        assert_allclose(moments.covariance(), expected.covariance(), rtol=ROUNDING)
        assert moments.distinct == expected.distinct
    half = X.half()
    assert torch.equal(
        Moments(DIM).update(half).covariance(),
        Moments(DIM).update(half.float()).covariance(),
    )


def test_wrong_parts_and_rows():
    first = Moments(DIM).update(X[:10])
    refused("rows: received none", Moments.merge([Moments(DIM)]).covariance)
    for wrong in (X[:, 1:], X[0], X[None]):
        with pytest.raises(ValueError, match=r"x: received the shape .* \(N, 5\)"):
            first.update(wrong)
    assert first.count == 10

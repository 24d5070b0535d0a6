"""Moments of parts of the rows are merged to those of all rows."""

import pickle
import random
from collections.abc import Sequence

import numpy as np
import pytest
import torch

from flowbert.errors import UserError
from flowbert.maps import Moments, Whitening
from flowbert.vectors import moments as module
from helpers import rows

DIM, BLOCK = 5, 32
X = torch.from_numpy(rows(23 * BLOCK + 7, DIM) + 10.0).float()


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A deep tree of few rows."""
    monkeypatch.setattr(module, "ROWS_PER_SUM", BLOCK)


def part_of(rng: random.Random, start: int, stop: int) -> Moments:
    """Moments of a part, in chunks of any size."""
    moments = Moments(DIM, start)
    while start < stop:
        end = min(stop, start + rng.choice([1, 9, BLOCK, 3 * BLOCK]))
        moments.update(X[start:end])
        start = end
    return moments


def tree_merged(rng: random.Random, parts: Sequence[Moments]) -> Moments:
    """Parts merged in groups, as machines merge theirs first."""
    parts = rng.sample(parts, len(parts))
    if len(parts) < 3:
        return Moments.merge(parts)
    half = rng.randrange(1, len(parts))
    groups = parts[:half], parts[half:]
    return Moments.merge(tree_merged(rng, group) for group in groups)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("count", [len(X), 2 * BLOCK, BLOCK - 1, 1])
def test_parts_are_merged_to_the_whole_bit_for_bit(count: int, seed: int) -> None:
    rng = random.Random(seed)
    cuts = sorted(rng.randrange(count + 1) for _ in range(rng.randrange(9)))
    starts, stops = [0, *cuts], [*cuts, count]
    parts = [part_of(rng, *span) for span in zip(starts, stops, strict=True)]
    parts = [pickle.loads(pickle.dumps(part)) for part in parts]
    merged, whole = tree_merged(rng, parts), Moments(DIM).update(X[:count])
    assert merged.count == whole.count == count
    assert merged.distinct == whole.distinct
    assert torch.equal(merged.mean, whole.mean)
    assert torch.equal(merged.mean_direction, whole.mean_direction)
    assert torch.equal(merged.covariance(), whole.covariance())
    # And rows can be added to it.
    more, expected = (each.update(X[:50]).covariance() for each in (merged, whole))
    assert torch.equal(more, expected)
    np.testing.assert_allclose(
        whole.mean, torch.cat([X[:count], X[:50]]).double().mean(0)
    )


def test_whitening_of_parts_is_that_of_the_whole() -> None:
    parts = [Moments(DIM, start).update(X[start : start + 300]) for start in (300, 0)]
    whitening = Whitening().fit_moments(Moments.merge(parts))
    expected = Whitening().fit(X[:600])
    assert torch.equal(whitening.transform(X), expected.transform(X))
    assert parts[0].count == 300


def test_a_part_that_is_missing_or_comes_twice() -> None:
    first, second = Moments(DIM).update(X[:10]), Moments(DIM, 12).update(X[12:20])
    with pytest.raises(
        UserError, match="rows 0 to 9, 12 to 19; expected all from 0 on"
    ):
        Moments.merge([first, second]).covariance()
    with pytest.raises(UserError, match="rows 12 to 19; expected all"):
        Whitening().fit_moments(second)
    with pytest.raises(UserError, match="row 5 twice"):
        Moments.merge([first, Moments(DIM, 5).update(X[5:10])])
    with pytest.raises(UserError, match="received none"):
        Moments.merge([])
    with pytest.raises(UserError, match="size 4"):
        Moments.merge([first, Moments(4, 10)])


def test_sizes_and_places_that_are_none() -> None:
    with pytest.raises(ValueError, match="dim: received 0"):
        Moments(0)
    for start in (-1, 1.5):
        with pytest.raises(ValueError, match=f"start: received {start}"):
            Moments(DIM, start)  # type: ignore[arg-type]
    moments = Moments(DIM).update(X[:9])
    for wrong in (X[:, 1:], X[0], X[None]):
        with pytest.raises(ValueError, match=r"x: received the shape .* \(N, 5\)"):
            moments.update(wrong)
    assert moments.count == 9

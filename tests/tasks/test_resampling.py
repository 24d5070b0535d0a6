"""Multiplicities: each stratum keeps its size, each unit is as likely as the others, blocks are numbered streams."""

import numpy as np
import pytest

from flowbert.tasks import resampling
from flowbert.tasks.resampling import blocks, unit_means


def drawn(task: str = "T", sizes: tuple[int, ...] = (30, 7), resamples: int = 50, seed: int = 0) -> resampling.Counts:
    return np.concatenate([b.multiplicities(sizes) for b in blocks(task, sum(sizes), resamples, seed)])


def test_each_stratum_keeps_its_size() -> None:
    counts = drawn()
    assert counts.shape == (50, 37)
    assert (counts >= 0).all()
    assert (counts[:, :30].sum(axis=1) == 30).all()
    assert (counts[:, 30:].sum(axis=1) == 7).all()


def test_units_are_drawn_as_often_as_binomials_are() -> None:
    counts = drawn(sizes=(20,), resamples=20_000)
    np.testing.assert_allclose(counts.mean(axis=0), 1, atol=0.04)
    np.testing.assert_allclose(counts.var(axis=0), 19 / 20, atol=0.06)


def test_seed_and_task_decide() -> None:
    np.testing.assert_array_equal(drawn(), drawn())
    assert (drawn(seed=1) != drawn()).any()
    assert (drawn(task="U") != drawn()).any()


def test_blocks_bound_the_memory_and_begin_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resampling, "_BLOCK_VALUES", 100)
    found = list(blocks("T", 37, 7, 0))
    assert [block.resamples for block in found] == [2, 2, 2, 1]
    assert [block.resamples for block in blocks("T", 1000, 3, 0)] == [1, 1, 1]
    more = list(blocks("T", 37, 70, 0))
    np.testing.assert_array_equal(found[1].multiplicities([37]), more[1].multiplicities([37]))


def test_means_are_those_of_the_repeated_units_that_have_a_value() -> None:
    generator = np.random.default_rng(0)
    values = generator.uniform(size=(3, 9))
    values[:, [2, 5]] = np.nan
    counts = generator.multinomial(9, np.full(9, 1 / 9), size=40).astype(np.int32)
    expected = [[np.nanmean(np.repeat(row, each)) for each in counts] for row in values]
    np.testing.assert_allclose(unit_means(values, counts), expected, atol=1e-12)


def test_without_a_value_there_is_no_mean() -> None:
    counts = np.array([[0, 2], [1, 1]], dtype=np.int32)
    np.testing.assert_array_equal(unit_means(np.array([[0.5, np.nan]]), counts), [[np.nan, 0.5]])
    assert np.isnan(unit_means(np.full((1, 2), np.nan), counts)).all()


@pytest.mark.parametrize(("rows", "units", "resamples"), [(3, 439, 1), (6, 1001, 1), (5, 439, 149), (5, 5463, 5)])
def test_equal_rows_have_exactly_equal_means(rows: int, units: int, resamples: int) -> None:
    """In these shapes one product of matrices rounds them differently (OpenBLAS, x86)."""
    generator = np.random.default_rng(0)
    counts = generator.multinomial(units, np.full(units, 1 / units), size=resamples).astype(np.int32)
    for _ in range(5):
        found = unit_means(np.repeat(generator.uniform(size=(1, units)), rows, axis=0), counts)
        assert (found == found[:1]).all()

"""Means over drawn units, and replicates of figures without subsets."""

import numpy as np
import pytest

from flowbert.tasks.unit_bootstrap import by_metric, unit_means


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


def test_aggregations_agree() -> None:
    points, values = np.array([0.1, 0.2]), np.random.default_rng(1).uniform(size=(2, 5))
    (replicates,) = by_metric("T", ["a", "b"], {"mrr": (points, values)}, 9, 4).values()
    assert (replicates.task, replicates.methods, replicates.pairs, replicates.seed) == ("T mrr", ("a", "b"), 9, 4)
    for aggregation in range(3):
        np.testing.assert_array_equal(replicates.points[:, aggregation], points)
        np.testing.assert_array_equal(replicates.values[:, aggregation], values)

"""Measures of the spectrum against closed forms and invariances."""

import math

import pytest
import torch

from flowbert.metrics.spectrum import effective_rank, isoscore, participation_ratio, partition_isotropy, spectrum


def rows(count: int = 400, dim: int = 6) -> torch.Tensor:
    return torch.randn(count, dim, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_spectrum_is_that_of_the_covariance() -> None:
    x = rows() * torch.arange(1.0, 7.0, dtype=torch.float64) + 100
    expected = torch.linalg.eigvalsh(torch.cov(x.T, correction=0)).flip(0)
    torch.testing.assert_close(spectrum(x), expected)
    torch.testing.assert_close(spectrum(x.numpy()), expected)
    with pytest.raises(ValueError, match="no row"):
        spectrum(x[:0])


@pytest.mark.parametrize("count", [1, 3, 8])
def test_equal_variances_in_some_directions(count: int) -> None:
    values = torch.zeros(8)
    values[:count] = 2.5
    assert effective_rank(values) == pytest.approx(count)
    assert participation_ratio(values) == pytest.approx(count)
    # By insertion: k of n directions used alike give (k - 1) / (n - 1), a score linear in k.
    assert isoscore(values) == pytest.approx((count - 1) / 7)


def test_scale_plays_no_role() -> None:
    values = torch.tensor([5.0, 3.0, 0.5, 0.1])
    for measure in (effective_rank, participation_ratio, isoscore):
        assert measure(values * 1e-6) == pytest.approx(measure(values))
        assert measure(values.flip(0)) == pytest.approx(measure(values))
    assert 1 < participation_ratio(values) < effective_rank(values) < 4


def test_no_variance_has_no_measure() -> None:
    assert all(math.isnan(measure(torch.zeros(3))) for measure in (effective_rank, participation_ratio, isoscore))
    with pytest.raises(ValueError, match="eigenvalues: received 1; allowed: at least 2"):
        isoscore(torch.ones(1))


def test_partition_function() -> None:
    # One point at distance r on an axis: Z is e^r, e^-r, and 1 across it.
    assert partition_isotropy(torch.tensor([[2.0, 0.0]])) == pytest.approx(math.exp(-4))
    assert partition_isotropy(rows() * 1e-3) > partition_isotropy(rows())
    assert partition_isotropy(rows() + 1000) == 0.0  # no overflow

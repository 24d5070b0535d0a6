"""Whitening: identity covariance, the published formula, and every way a covariance can be singular."""

import numpy as np
import pytest
import torch
from torch import Tensor

from flowbert.calibration import Whitening
from flowbert.errors import FlowbertWarning, UserError


def data(rows: int = 600, dim: int = 16, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    scales = torch.logspace(0, -3, dim, dtype=torch.float64)
    rotation: Tensor = torch.linalg.qr(torch.randn(dim, dim, generator=generator, dtype=torch.float64))[0]
    return torch.randn(rows, dim, generator=generator, dtype=torch.float64) * scales @ rotation + 5


def covariance(x: Tensor) -> Tensor:
    return torch.cov(x.double().T)


@pytest.mark.parametrize("n_components", [None, 1, 5, 16])
@pytest.mark.parametrize("shift", [0.0, 1e4])
def test_whitened_covariance_is_the_identity(n_components: int | None, shift: float) -> None:
    x = data() + shift
    y = Whitening(n_components).fit(x).transform(x, dtype=torch.float64)
    size = n_components or 16
    torch.testing.assert_close(
        covariance(y).reshape(size, size), torch.eye(size, dtype=torch.float64), atol=1e-6, rtol=0
    )
    assert float(y.mean(dim=0).abs().max()) < 1e-6


def test_published_formula_with_numpy() -> None:
    x = data()
    u, s, _ = np.linalg.svd(np.cov(x.numpy().T))
    expected = (x.numpy() - x.numpy().mean(0)) @ u[:, :4] / np.sqrt(s[:4])
    y = Whitening(4).fit(x).transform(x, dtype=torch.float64).numpy()
    np.testing.assert_allclose(np.abs(y), np.abs(expected), rtol=1e-7, atol=1e-9)


def test_signs_are_fixed() -> None:
    vectors = Whitening().fit(data()).affine()[0]
    assert bool((vectors.gather(0, vectors.abs().argmax(dim=0)[None]) > 0).all())


def test_exponent_softens() -> None:
    x = data()
    values = torch.linalg.eigvalsh(covariance(x)).flip(0)
    y = Whitening(exponent=-0.35).fit(x).transform(x, dtype=torch.float64)
    torch.testing.assert_close(covariance(y), torch.diag(values**0.3), rtol=1e-8, atol=1e-10)


def test_shrinkage_mixes_in_the_mean_eigenvalue() -> None:
    x = data()
    values = torch.linalg.eigvalsh(covariance(x)).flip(0)
    y = Whitening(shrinkage=0.25).fit(x).transform(x, dtype=torch.float64)
    expected = values / (0.75 * values + 0.25 * values.mean())
    torch.testing.assert_close(covariance(y), torch.diag(expected), rtol=1e-8, atol=1e-10)


def test_negative_float32_eigenvalue_stays_finite() -> None:
    x = data(dim=32).float()
    x[:, 7], x[:, 9] = 0.0, 0.0
    x[:, 20] = x[:, 3] - x[:, 4]
    assert float(torch.linalg.eigvalsh(torch.cov(x.T)).min()) < 0, "the trap is set"
    with pytest.warns(FlowbertWarning, match=r"N=600 rows in D=32 dimensions has rank 29, 32 directions wanted"):
        y = Whitening().fit(x).transform(x)
    assert y.shape == (600, 29)
    torch.testing.assert_close(covariance(y), torch.eye(29, dtype=torch.float64), atol=1e-3, rtol=0)


@pytest.mark.parametrize("rows", [1, 2, 10, 16])
def test_too_few_rows_warn_with_numbers(rows: int) -> None:
    with pytest.warns(
        FlowbertWarning, match=rf"N={rows} rows in D=16 dimensions has rank {rows - 1}, .*eigenvalues from"
    ):
        fitted = Whitening().fit(data()[:rows])
    assert bool(torch.isfinite(fitted.transform(data())).all())
    assert bool(torch.isfinite(fitted.inverse_transform(fitted.transform(data()))).all())


def test_duplicates_of_one_row_are_only_centred() -> None:
    row = data()[:1]
    with pytest.warns(FlowbertWarning, match="rank 0.*only centred"):
        fitted = Whitening(3).fit(row.repeat(20, 1))
    torch.testing.assert_close(fitted.transform(data(), dtype=torch.float64), (data() - row)[:, :3])


def test_enough_directions_or_shrinkage_need_no_warning() -> None:
    few = data()[:10]
    assert Whitening(9).fit(few).transform(few).shape == (10, 9)
    for shrinkage in (0.1, "ledoit-wolf"):
        y = Whitening(shrinkage=shrinkage).fit(few).transform(few)
        assert y.shape == (10, 16)
        assert bool(torch.isfinite(y).all())


def test_float32_result_has_float32_error_only() -> None:
    x = (data() + 100).float()
    fitted = Whitening().fit(x)
    torch.testing.assert_close(
        fitted.transform(x).double(), fitted.transform(x, dtype=torch.float64), rtol=1e-6, atol=1e-6
    )


def test_arguments_are_checked() -> None:
    with pytest.raises(UserError, match="n_components: received 17; allowed: 1 to 16"):
        Whitening(17).fit(data())
    with pytest.raises(UserError, match="n_components: received 0"):
        Whitening(0)
    for shrinkage in (1.5, "oas", float("nan")):
        with pytest.raises(UserError, match="shrinkage: received"):
            Whitening(shrinkage=shrinkage)
    for exponent in (0.5, float("nan")):
        with pytest.raises(UserError, match="exponent: received"):
            Whitening(exponent=exponent)
    with pytest.raises(UserError, match="rank_tolerance: received 2"):
        Whitening(rank_tolerance=2)

"""Streamed moments: any chunking and merging gives one pass; Ledoit-Wolf equals scikit-learn."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.covariance import ledoit_wolf
from torch import Tensor

from flowbert.calibration import Moments, Whitening
from flowbert.errors import UserError


def data(rows: int = 400, dim: int = 12, mean: float = 0.0, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    mixing = torch.randn(dim, dim, generator=generator, dtype=torch.float64)
    return torch.randn(rows, dim, generator=generator, dtype=torch.float64) @ mixing + mean


def assert_same(a: Moments, b: Moments, tolerance: float = 1e-12) -> None:
    assert a.count == b.count
    for x, y in ((a.mean, b.mean), (a.scatter, b.scatter), (a.third, b.third), (a.fourth, b.fourth)):
        assert float((x - y).abs().max()) <= tolerance * float(y.abs().max())


@pytest.mark.parametrize("mean", [0.0, 1e4])
@pytest.mark.parametrize("sizes", [[1, 399], [64, 200, 0, 136], [1] * 400])
def test_any_chunks_equal_one_pass(sizes: list[int], mean: float) -> None:
    x = data(mean=mean)
    streamed = Moments(12)
    for chunk in torch.split(x, sizes):
        streamed.update(chunk)
    whole = Moments(12).update(x)
    assert_same(streamed, whole, 1e-11)
    torch.testing.assert_close(streamed.covariance(), torch.cov(x.T), rtol=1e-10, atol=1e-10)


def test_merging_in_any_order_equals_one_pass() -> None:
    x = data(mean=3.0)
    chunks = torch.split(x, [10, 90, 150, 150])
    for order in ([0, 1, 2, 3], [3, 1, 0, 2], [2, 3, 1, 0]):
        merged = Moments(12)
        for i in order:
            merged.merge(Moments(12).update(chunks[i]))
        assert_same(merged, Moments(12).update(x))


def test_merge_leaves_the_other_alone_and_empty_changes_nothing() -> None:
    x = data()
    a, b = Moments(12).update(x[:100]), Moments(12).update(x[100:])
    before = b.state_dict()
    a.merge(b).merge(Moments(12))
    assert all(torch.equal(before[key], value) for key, value in b.state_dict().items())
    assert_same(a, Moments(12).update(x))


def test_mean_of_1e4_does_not_destroy_the_covariance() -> None:
    x = data(seed=3)
    torch.testing.assert_close(
        Moments(12).update(x + 1e4).covariance(), Moments(12).update(x).covariance(), rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize(("rows", "dim", "mean"), [(400, 12, 0.0), (20, 50, 5.0), (300, 8, 1e4), (5, 1, 0.0)])
def test_ledoit_wolf_equals_scikit_learn(rows: int, dim: int, mean: float) -> None:
    x = data(rows, dim, mean)
    moments = Moments(dim)
    for chunk in torch.split(x, 7):
        moments.update(chunk)
    covariance, shrinkage = ledoit_wolf(x.numpy())
    found = moments.ledoit_wolf_shrinkage()
    assert found == pytest.approx(float(shrinkage), abs=1e-8)
    s = moments.covariance(correction=0)
    shrunk = (1 - found) * s + found * s.trace() / dim * torch.eye(dim, dtype=torch.float64)
    np.testing.assert_allclose(shrunk.numpy(), covariance, rtol=1e-8, atol=1e-8 * float(s.abs().max()))


def test_ledoit_wolf_of_constant_rows_is_zero() -> None:
    assert Moments(3).update(torch.ones(5, 3)).ledoit_wolf_shrinkage() == 0.0


def test_state_round_trip_continues() -> None:
    x = data()
    restored = Moments.from_state_dict(Moments(12).update(x[:100]).state_dict()).update(x[100:])
    assert_same(restored, Moments(12).update(x))


def test_bad_input_is_named() -> None:
    with pytest.raises(ValueError, match=r"shape \(3, 4\); allowed: \(N, 12\)"):
        Moments(12).update(torch.zeros(3, 4))
    with pytest.raises(ValueError, match="3 dimensions cannot be merged into moments of 12"):
        Moments(12).merge(Moments(3))
    with pytest.raises(ValueError, match="dim is 0"):
        Moments(0)
    with pytest.raises(UserError, match="lack shift"):
        Moments.from_state_dict({"count": torch.tensor(1), "offset": torch.zeros(2), "scatter": torch.zeros(2, 2)})


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64])
@pytest.mark.parametrize("dim", [191, 200])
def test_every_block_is_exact_to_float64(dim: int, dtype: torch.dtype) -> None:
    """More rows than a block, a mean of 100 times the spread, variances that fall."""
    generator = torch.Generator().manual_seed(0)
    x = (torch.randn(1100, dim, generator=generator) * torch.logspace(0, -4, dim) + 100).to(dtype)
    exact = np.cov(x.numpy().astype(np.longdouble), rowvar=False)
    scale = np.sqrt(np.outer(exact.diagonal(), exact.diagonal())).clip(1e-9)
    for chunk in (1100, 1024, 100):
        moments = Moments(dim)
        for block in torch.split(x, chunk):
            moments.update(block)
        found = moments.covariance().numpy()
        assert np.array_equal(found, found.T)
        assert float(np.abs((found - exact) / scale).max()) < 1e-9  # by the spread of the two dimensions themselves


@pytest.mark.parametrize(("rows", "dim"), [(1, 3), (1025, 5), (9000, 7), (40_000, 3)])
def test_the_number_of_threads_changes_no_bit(rows: int, dim: int, set_threads: Callable[[int], None]) -> None:
    x = 10 + torch.randn(rows, dim, generator=torch.Generator().manual_seed(0))
    set_threads(1)
    expected = Moments(dim).update(x).state_dict()
    for threads in (2, 3):
        set_threads(threads)
        found = Moments(dim).update(x).state_dict()
        assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_rows_whose_sum_overflows_are_finite_all_the_same() -> None:
    x = torch.full((4, 3), 3e38)
    x[0] = -3e38
    assert float(Moments(3).update(x).covariance()[0, 0]) == pytest.approx(9e76, rel=1e-6)
    assert Whitening(shrinkage=0.1).fit(x).fitted


@pytest.mark.parametrize("seed", range(8))
def test_eigenvectors_are_those_of_the_rows_seen_so_far(seed: int) -> None:
    """Copies share what was found; what changes one of them, in whatever order, leaves the others right."""
    rng, dim = np.random.default_rng(seed), 4
    known = [Moments(dim)]
    for step in range(40):
        one, other = (known[i] for i in rng.integers(len(known), size=2))
        match rng.integers(5):
            case 0:
                one.update(data(int(rng.integers(3)), dim, seed=step))
            case 1 if one is not other:
                one.merge(other)
            case 2:
                known.append(one.to("cpu"))
            case 3:
                known.append(Moments(dim).merge(one))
            case _:
                known.append(one.with_scatter(2 * one.scatter))
        checked = known[rng.integers(len(known))]
        values, vectors = checked.eigen()
        torch.testing.assert_close((vectors * values) @ vectors.T, checked.covariance())


def test_copies_find_eigenvectors_once(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Tensor] = []
    eigh = torch.linalg.eigh

    def counting(matrix: Tensor) -> Any:
        found.append(matrix)
        return eigh(matrix)

    monkeypatch.setattr(torch.linalg, "eigh", counting)
    first = Moments(12).update(data())
    second = Moments(12).merge(first)
    assert first.to("cpu").eigen() is second.eigen()
    assert len(found) == 1
    second.update(data(1, seed=1))
    assert second.eigen() is not first.eigen()
    assert len(found) == 2

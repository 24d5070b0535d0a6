"""Uniformity by blocks equals the naive formula over all distinct pairs."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from flowbert.errors import FlowbertWarning
from flowbert.metrics import uniformity


def naive(x: Tensor, t: float) -> float:
    unit = x / x.norm(dim=1, keepdim=True)
    return float(torch.pdist(unit).pow(2).mul(-t).exp().mean().log())


# Tiles are as wide as there are threads: with one, the counts below have rests in both directions.
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("count", [2, 3, 255, 256, 257, 767, 769, 1025, 2500])
@pytest.mark.parametrize("t", [2.0, 5.0])
def test_blocks_equal_the_naive_formula(count: int, t: float) -> None:
    x = torch.randn(count, 6, generator=torch.Generator().manual_seed(count), dtype=torch.float64) + 0.5
    assert uniformity(x, t) == pytest.approx(naive(x, t), rel=1e-12)
    assert uniformity(7 * x.numpy(), t) == pytest.approx(naive(x, t), rel=1e-12)


@pytest.mark.parametrize("spread", [1.0, 0.1, 1e-3])  # cosines from none to 0.999999
def test_products_in_single_precision_move_it_by_hardly_anything(spread: float) -> None:
    generator = torch.Generator().manual_seed(0)
    x = spread * torch.randn(2500, 40, generator=generator) + torch.randn(1, 40, generator=generator)
    assert uniformity(x, dtype=torch.float32) == pytest.approx(uniformity(x), abs=3e-8)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_number_of_threads_changes_no_bit(dtype: torch.dtype, set_threads: Callable[[int], None]) -> None:
    x = torch.randn(1500, 20, generator=torch.Generator().manual_seed(0))
    set_threads(1)
    expected = uniformity(x, dtype=dtype)
    for threads in (2, 3):
        set_threads(threads)
        assert uniformity(x, dtype=dtype) == expected


def test_equal_vectors_give_the_maximum() -> None:
    assert uniformity(torch.ones(1500, 3)) == pytest.approx(0.0, abs=1e-12)


def test_no_figure_is_nan() -> None:
    with pytest.warns(FlowbertWarning, match="1 vectors; at least 2"):
        assert math.isnan(uniformity(torch.ones(1, 3)))
    with pytest.warns(FlowbertWarning, match="1 of 2 embeddings have no direction"):
        assert math.isnan(uniformity(torch.tensor([[0.0, 0.0], [1.0, 0.0]])))
    with pytest.raises(ValueError, match="t: received 0"):
        uniformity(torch.ones(2, 3), 0)


def test_a_random_part_is_seeded_and_near() -> None:
    x = torch.randn(900, 6, generator=torch.Generator().manual_seed(0))
    first, again, other = (uniformity(x, vectors=300, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert first == pytest.approx(uniformity(x), abs=0.1)
    assert uniformity(x, vectors=5000) == uniformity(x)
    with pytest.raises(ValueError, match="vectors: received 1"):
        uniformity(x, vectors=1)

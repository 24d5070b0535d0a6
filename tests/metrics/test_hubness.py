"""Hubness against closed forms, a slow count, and scipy's skewness."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import skew
from torch import Tensor

from flowbert.errors import FlowbertWarning
from flowbert.metrics import hubness


def star(leaves: int) -> Tensor:
    """A hub, and leaves around it that are nearer to it than to each other; the first leaf is nearest to the hub."""
    angles = torch.tensor([0.4, *[0.5] * (leaves - 1)], dtype=torch.float64)
    hub = torch.eye(1, leaves + 1, dtype=torch.float64)
    return torch.cat([hub, torch.cat([angles.cos()[:, None], torch.diag(angles.sin())], dim=1)])


@pytest.mark.parametrize("leaves", [3, 10, 200])
def test_a_star(leaves: int) -> None:
    m = leaves
    third, variance = ((m - 1) ** 3 - (m - 1)) / (m + 1), ((m - 1) ** 2 + (m - 1)) / (m + 1)
    assert hubness(star(m), k=1) == pytest.approx(third / variance**1.5, rel=1e-12)


@pytest.mark.parametrize("count", [40, 1500])
def test_against_a_slow_count(count: int) -> None:
    x = np.random.default_rng(0).standard_normal((count, 6)) + 0.3  # more than one block
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    cosines = unit @ unit.T
    np.fill_diagonal(cosines, -2)
    nearest = np.argsort(-cosines, axis=1)[:, :10]
    expected = skew(np.bincount(nearest.ravel(), minlength=count))
    assert hubness(x) == pytest.approx(expected, rel=1e-12)
    assert hubness(torch.from_numpy(7 * x)) == pytest.approx(expected, rel=1e-9)


def test_high_dimension_makes_hubs() -> None:
    generator = torch.Generator().manual_seed(0)
    low, high = (hubness(torch.randn(1500, size, generator=generator) + 0.5) for size in (3, 100))
    assert high > low + 1


def test_a_draw_is_that_many_and_repeats() -> None:
    x = torch.randn(300, 8, generator=torch.Generator().manual_seed(0))
    assert hubness(x, vectors=100, seed=1) == hubness(x, vectors=100, seed=1) != hubness(x, vectors=100, seed=2)
    assert hubness(x, vectors=300) == hubness(x, vectors=10**6) == hubness(x)


def test_no_figure() -> None:
    with pytest.warns(FlowbertWarning, match="10 vectors; at least 11 are needed"):
        assert math.isnan(hubness(torch.eye(10)))
    with pytest.warns(FlowbertWarning, match="1 of 12 embeddings have no direction"):
        assert math.isnan(hubness(torch.cat([torch.eye(11), torch.zeros(1, 11)])))


def test_wrong_calls() -> None:
    for wrong in ({"k": 0}, {"vectors": 1}):
        with pytest.raises(ValueError, match="received"):
            hubness(torch.eye(20), **wrong)
    with pytest.raises(ValueError, match="have the shape"):
        hubness(torch.ones(3))

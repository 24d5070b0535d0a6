"""Alignment equals its formula."""

import math

import pytest
import torch

from flowbert.errors import FlowbertWarning
from flowbert.metrics import alignment


def test_equals_the_formula_whatever_the_norms() -> None:
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(2, 50, 8, generator=generator, dtype=torch.float64)
    unit_x, unit_y = x / x.norm(dim=1, keepdim=True), y / y.norm(dim=1, keepdim=True)
    expected = float(((unit_x - unit_y) ** 2).sum(dim=1).mean())
    assert alignment(x, 100 * y) == pytest.approx(expected, rel=1e-12)
    assert alignment(x.numpy(), y.numpy()) == pytest.approx(expected, rel=1e-12)
    assert alignment(x, x * 3) == pytest.approx(0, abs=1e-15)


def test_nothing_to_align_is_nan() -> None:
    with pytest.warns(FlowbertWarning, match="no positive pairs"):
        assert math.isnan(alignment(torch.zeros(0, 3), torch.zeros(0, 3)))
    with pytest.warns(FlowbertWarning, match="1 of 1 left vectors have no direction"):
        assert math.isnan(alignment(torch.zeros(1, 3), torch.ones(1, 3)))


def test_shapes_are_checked() -> None:
    with pytest.raises(ValueError, match="equal shapes"):
        alignment(torch.ones(2, 3), torch.ones(3, 3))
    with pytest.raises(ValueError, match=r"allowed: \(N, D\)"):
        alignment(torch.ones(3), torch.ones(3))

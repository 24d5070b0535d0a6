"""Mean cosine in closed form equals the mean over all pairs."""

import math

import pytest
import torch

from flowbert.errors import FlowbertWarning
from flowbert.metrics import mean_cosine


def test_closed_form_equals_all_pairs() -> None:
    x = torch.randn(70, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 1
    unit = x / x.norm(dim=1, keepdim=True)
    cosines = (unit @ unit.T)[torch.triu(torch.ones(70, 70), diagonal=1).bool()]
    assert mean_cosine(x) == pytest.approx(float(cosines.mean()), rel=1e-12)
    assert mean_cosine(torch.ones(9, 2)) == pytest.approx(1.0)


def test_no_figure_is_nan() -> None:
    with pytest.warns(FlowbertWarning, match="1 vectors"):
        assert math.isnan(mean_cosine(torch.ones(1, 2)))
    with pytest.warns(FlowbertWarning, match="no direction"):
        assert math.isnan(mean_cosine(torch.zeros(2, 2)))

"""Standardization: unit variance, constant dimensions only centred."""

import pytest
import torch

from flowbert.calibration import Standardization
from flowbert.errors import FlowbertWarning


def test_unit_variance_per_dimension() -> None:
    x = torch.randn(100, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * torch.arange(1, 6) + 1e4
    y = Standardization().fit(x).transform(x, dtype=torch.float64)
    torch.testing.assert_close(y.std(dim=0), torch.ones(5, dtype=torch.float64))
    torch.testing.assert_close(y.mean(dim=0), torch.zeros(5, dtype=torch.float64), atol=1e-9, rtol=0)


def test_constant_dimension_is_centred_with_a_warning() -> None:
    x = torch.tensor([[1.0, 7.0], [3.0, 7.0]])
    with pytest.warns(FlowbertWarning, match="1 of D=2 dimensions do not vary over N=2"):
        y = Standardization().fit(x).transform(x)
    assert y[:, 1].tolist() == [0.0, 0.0]

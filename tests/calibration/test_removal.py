"""Nulling: the strongest directions are gone, the rest untouched."""

import pytest
import torch

from flowbert.calibration import RemoveDirections
from flowbert.errors import UserError


def test_top_directions_are_gone_the_rest_is_untouched() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(400, 5, generator=generator, dtype=torch.float64) * torch.tensor([9.0, 5.0, 1.0, 0.5, 0.2]) + 3
    y = RemoveDirections(2).fit(x).transform(x, dtype=torch.float64)
    before = torch.linalg.eigvalsh(torch.cov(x.T)).flip(0)
    after = torch.linalg.eigvalsh(torch.cov(y.T)).flip(0)
    torch.testing.assert_close(after[:3], before[2:])
    assert float(after[3:].abs().max()) < 1e-12


def test_standardize_first_equals_doing_it_in_two_steps() -> None:
    x = torch.randn(400, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64).cumsum(dim=1) * 3
    z = (x - x.mean(dim=0)) / x.std(dim=0)
    expected = RemoveDirections(1).fit(z).transform(z, dtype=torch.float64)
    found = RemoveDirections(1, standardize=True).fit(x).transform(x, dtype=torch.float64)
    torch.testing.assert_close(found, expected)


def test_default_count_and_limits() -> None:
    x = torch.randn(500, 200, generator=torch.Generator().manual_seed(0))
    assert int(torch.linalg.matrix_rank(RemoveDirections().fit(x).affine()[0])) == 198
    with pytest.raises(UserError, match="n_directions: received 5; allowed: 1 to 4"):
        RemoveDirections(5).fit(torch.randn(9, 5))

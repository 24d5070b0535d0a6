"""ZCA: whitening in the original axes."""

import pytest
import torch

from flowbert.calibration import ZCA, Whitening
from flowbert.errors import FlowbertWarning


def test_covariance_is_the_identity_and_the_map_symmetric() -> None:
    x = torch.randn(300, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64).cumsum(dim=1)
    fitted = ZCA().fit(x)
    weight = fitted.affine()[0]
    torch.testing.assert_close(weight, weight.T)
    y = fitted.transform(x, dtype=torch.float64)
    torch.testing.assert_close(torch.cov(y.T), torch.eye(6, dtype=torch.float64), atol=1e-9, rtol=0)
    z = Whitening().fit(x).transform(x, dtype=torch.float64)
    torch.testing.assert_close(y @ y.T, z @ z.T)


def test_rank_cut_keeps_the_dimensions() -> None:
    x = torch.randn(300, 6, generator=torch.Generator().manual_seed(0))
    x[:, 2] = 1.0
    with pytest.warns(FlowbertWarning, match="zca: .*rank 5, 6 directions wanted"):
        y = ZCA().fit(x).transform(x)
    assert y.shape == x.shape
    assert float(y[:, 2].abs().max()) < 1e-6
    with pytest.warns(FlowbertWarning, match="rank 0"):
        assert bool(torch.isfinite(ZCA().fit(x[:1]).transform(x)).all())

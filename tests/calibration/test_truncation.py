"""Truncation: the first dimensions, bit for bit, whatever was fitted on."""

import pytest
import torch

from flowbert.calibration import Calibration, Truncation
from flowbert.errors import UserError
from flowbert.methods import make_calibration


def test_the_first_dimensions_are_kept_as_they_are(tmp_path: object) -> None:
    x = torch.randn(20, 6, generator=torch.Generator().manual_seed(0)) + 1e3
    fitted = make_calibration("truncation-4").fit(x[:3])
    assert isinstance(fitted, Truncation)
    torch.testing.assert_close(fitted.transform(x), x[:, :4], rtol=0, atol=0)
    back = Calibration.load(fitted.save(f"{tmp_path}/t.safetensors"))
    torch.testing.assert_close(back.transform(x), x[:, :4], rtol=0, atol=0)
    torch.testing.assert_close(fitted.inverse_transform(x[:, :4])[:, 4:], torch.zeros(20, 2))
    torch.testing.assert_close(Truncation().fit(x).transform(x), x, rtol=0, atol=0)


def test_more_than_there_are_is_refused() -> None:
    with pytest.raises(UserError, match="n_components: received 7; allowed: 1 to 6"):
        Truncation(7).output_dim(6)

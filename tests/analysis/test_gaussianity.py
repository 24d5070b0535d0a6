"""How Gaussian vectors are, against closed forms."""

import math

import numpy as np
import pytest
import torch

from flowbert.analysis.gaussianity import (
    dimension_moments,
    gaussianity,
)
from helpers import normal


def test_a_standard_normal():
    expected = {
        "mean": 0,
        "std": 1,
        "skewness": 0,
        "excess_kurtosis": 0,
        "squared_norm": 6,
        "norm_distance": 0,
    }
    # Five standard errors of the least certain figure, the kurtosis: its variance is 24 / N.
    error = 5 * math.sqrt(24 / 50_000)
    assert gaussianity(normal(50_000, 6)) == pytest.approx(expected, abs=error)


@pytest.mark.parametrize("rounding", [0.0, 1e-9, 1e-8])
def test_a_dead_dimension_has_no_moments(rounding):
    alive = normal(400, 4) ** 3
    dead = 0.3 + rounding * normal(400, 2, seed=1) ** 3
    latents = torch.cat([alive[:, :1], dead, alive[:, 1:]], dim=1)
    moments = dimension_moments(latents)
    assert moments["dimension"].tolist() == [0, 3, 4, 5]
    standard = (alive - alive.mean(dim=0)) / alive.std(dim=0, correction=0)
    np.testing.assert_allclose(moments["skewness"], standard.pow(3).mean(dim=0))
    np.testing.assert_allclose(
        moments["excess_kurtosis"], standard.pow(4).mean(dim=0) - 3
    )
    assert gaussianity(latents)["skewness"] == gaussianity(alive)["skewness"]

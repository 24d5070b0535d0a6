"""Figures of a latent and of densities against closed forms."""

import math

import pytest
import torch

from flowbert.analysis import density_bits, gaussianity
from flowbert.analysis.gaussianity import latent_shape
from flowbert.flows import Glow


def normal(count: int, dim: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(count, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_a_standard_normal() -> None:
    found = gaussianity(normal(50_000, 6))
    assert found.mean < 0.01
    assert found.std == pytest.approx(1, abs=0.01)
    assert found.skewness < 0.03
    assert found.excess_kurtosis == pytest.approx(0, abs=0.05)
    assert found.squared_norm == pytest.approx(6, abs=0.05)
    assert found.norm_distance < 0.01


def test_uniform_dimensions_have_their_kurtosis() -> None:
    uniform = torch.rand(50_000, 4, generator=torch.Generator().manual_seed(0)) * 2 - 1
    found = gaussianity(uniform)
    assert found.std == pytest.approx(3**-0.5, abs=0.01)
    assert found.excess_kurtosis == pytest.approx(-1.2, abs=0.02)
    assert found.norm_distance > 0.3


def test_bits_of_gaussians_are_their_entropies() -> None:
    """Of N(0, s^2 I) under itself: log2(s sqrt(2 pi e)) bits for each dimension."""
    x, scales = normal(40_000, 4), torch.tensor([1.0, 2.0, 4.0, 8.0], dtype=torch.float64)
    flow = Glow(4, levels=1, depth=1, width=4)
    flow.initialize((x * scales)[:20_000].float())
    bits = density_bits(flow, (x * scales)[:20_000], (x * scales)[20_000:], {"none": 0.0, "all": 1.0})
    entropy = math.log2(math.sqrt(2 * math.pi * math.e)) + (0 + 1 + 2 + 3) / 4
    for name in ("flow", "flow, couplings off", "diagonal Gaussian", "none"):
        assert bits[name] == pytest.approx(entropy, abs=0.02), name
    # Shrunk to one variance m = 85 / 4 in all dimensions: log2(m) / 2 in place of the mean of the log2(s).
    assert bits["all"] == pytest.approx(entropy - 1.5 + math.log2(85 / 4) / 2, abs=0.02)


def test_couplings_off_is_the_flow_without_its_networks_and_changes_nothing() -> None:
    x = normal(2_000, 4)
    flow = Glow(4, levels=1, depth=2, width=8)
    flow.initialize(x.float())
    before = {name: value.clone() for name, value in flow.state_dict().items()}
    with torch.no_grad():
        for name, parameter in flow.named_parameters():
            if name.endswith("bias_out"):
                parameter.add_(3.0)
    bits = density_bits(flow, x, x)
    assert bits["flow"] > bits["flow, couplings off"] + 1
    moved = {name for name, value in flow.state_dict().items() if not torch.equal(value, before[name])}
    assert moved == {name for name in before if name.endswith("bias_out")}


@pytest.mark.parametrize("rows", [3, 4, 5])
def test_a_gaussian_of_too_few_rows_has_no_density_and_the_others_stay(rows: int) -> None:
    """Of n rows the covariance has rank n - 1: with D = 4 there is a density from 5 rows on, however it is rounded."""
    flow = Glow(4, levels=1)
    flow.initialize(normal(50, 4).float())
    always = {"flow", "flow, couplings off", "diagonal Gaussian", "shrunk"}
    for seed in range(20):
        bits = density_bits(flow, normal(rows, 4, seed), normal(50, 4), {"plain": 0.0, "shrunk": 0.1})
        assert set(bits) == (always | {"plain"} if rows > 4 else always)
        assert all(map(math.isfinite, bits.values()))


def test_a_gaussian_has_no_density_where_a_dimension_is_dead() -> None:
    flow, fitting = Glow(4, levels=1), normal(50, 4)
    flow.initialize(fitting.float())
    fitting[:, 2] = 7.0
    bits = density_bits(flow, fitting, normal(50, 4), {"plain": 0.0, "shrunk": 0.1})
    assert set(bits) == {"flow", "flow, couplings off", "shrunk"}


@pytest.mark.parametrize("rounding", [0.0, 1e-9, 1e-8])
def test_a_dead_dimension_has_no_shape(rounding: float) -> None:
    alive = normal(400, 4) ** 3
    latents = torch.cat([alive, 0.3 + rounding * normal(400, 2, seed=1) ** 3], dim=1)
    found, expected = gaussianity(latents), gaussianity(alive)
    assert (found.skewness, found.excess_kurtosis) == (expected.skewness, expected.excess_kurtosis)
    assert latent_shape(latents).skewness == latent_shape(alive).skewness
    assert latent_shape(latents).dim == 6


def test_wrong_calls() -> None:
    with pytest.raises(ValueError, match="latents: received 1 rows; allowed: at least 2"):
        gaussianity(normal(1, 3))
    with pytest.raises(ValueError, match="have 3 and 4 dimensions; allowed: 4"):
        density_bits(Glow(4, levels=1), normal(9, 3), normal(9, 4))

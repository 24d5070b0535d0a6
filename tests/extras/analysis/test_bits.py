"""Bits of densities against closed forms."""

import math

import pytest
import torch

from flowbert.extras.analysis import Sample
from flowbert.extras.analysis import bits as bits_module
from flowbert.flows import Glow
from helpers import normal


def bits_of(flow, fitting, held_out):
    flows = {"flow": flow, "same": flow}
    sample = Sample(flows=flows, fitting=fitting, held_out=held_out)
    bits = bits_module.bits(sample).set_index("density")["bits"]
    assert bits.index.is_unique
    assert bits["same, couplings off"] == bits["flow, couplings off"]
    return bits


def test_bits_of_gaussians_are_their_entropies(monkeypatch):
    monkeypatch.setattr(bits_module, "GAUSSIANS", {"none": 0.0, "all": 1.0})
    # N(0, s^2) has log2(s sqrt(2 pi e)) bits.
    x = normal(40_000, 4) * torch.tensor([1.0, 2.0, 4.0, 8.0], dtype=torch.float64)
    flow = Glow(4, levels=1, depth=1, width=4)
    flow.initialize(x[:20_000].float())
    bits = bits_of(flow, x[:20_000], x[20_000:])
    entropy = math.log2(math.sqrt(2 * math.pi * math.e)) + (0 + 1 + 2 + 3) / 4
    for name in ("flow", "flow, couplings off", "diagonal Gaussian", "none"):
        assert bits[name] == pytest.approx(entropy, abs=0.02), name
    # Shrunk to one variance 85 / 4: half its log2 in place of the mean of the log2(s).
    assert bits["all"] == pytest.approx(entropy - 1.5 + math.log2(85 / 4) / 2, abs=0.02)


def test_couplings_off_leaves_the_flow_as_it_was():
    x = normal(2_000, 4)
    flow = Glow(4, levels=1, depth=2, width=8)
    flow.initialize(x.float())
    plain = bits_of(flow, x, x)
    with torch.no_grad():
        for name, parameter in flow.named_parameters():
            if name.endswith("bias_out"):
                parameter.add_(3.0)
    before = {name: value.clone() for name, value in flow.state_dict().items()}
    bits = bits_of(flow, x, x)
    assert bits["flow"] > bits["flow, couplings off"] + 1
    assert bits["flow, couplings off"] == pytest.approx(plain["flow"])
    torch.testing.assert_close(dict(flow.state_dict()), before, rtol=0, atol=0)


@pytest.mark.parametrize(("rows", "dead"), [(4, False), (5, False), (50, True)])
def test_a_singular_gaussian_has_no_density(rows, dead):
    # The covariance of n rows has rank n - 1: with D = 4 there is a density from 5 rows on.
    flow = Glow(4, levels=1)
    flow.initialize(normal(50, 4).float())
    fitting = normal(rows, 4, seed=1)
    if dead:
        fitting[:, 2] = 7.0
    bits = bits_of(flow, fitting, normal(50, 4))
    assert ("Gaussian" in bits) == (rows > 4 and not dead)
    assert ("diagonal Gaussian" in bits) == (not dead)
    assert "Gaussian, shrinkage 0.1" in bits
    assert bits.map(math.isfinite).all()

"""Actnorm, couplings and mixings against their formulas."""

import pytest
import torch
from torch.testing import assert_close

from flowbert.flows import (
    MIXINGS,
    ActNorm,
    AdditiveCoupling,
    AffineCoupling,
    CouplingNet,
    LULinear,
    RandomPermutation,
    Reverse,
)


@pytest.fixture
def x():
    rows = torch.randn(50, 6)
    return rows * torch.tensor([0.1, 1, 5, 100, 1, 2]) + 7


def test_actnorm_standardizes_its_batch(x):
    actnorm = ActNorm(6)
    assert torch.equal(actnorm(x)[0], x)
    actnorm.initialize_from(x)
    _, log_det = actnorm(x)
    exact = x.double()
    std = (exact - exact.mean(0)).square().mean(0).sqrt()
    expected = {"bias": -exact.mean(0), "log_scale": -(std + 1e-6).log() / 3}
    for name, value in expected.items():
        assert_close(actnorm.get_parameter(name).double(), value, rtol=1e-5, atol=1e-6)
    assert_close(log_det[0].double(), -std.log().sum(), rtol=1e-4, atol=0)


def test_actnorm_of_a_constant_dimension_is_finite():
    actnorm, x = ActNorm(2), torch.tensor([[1.0, 4.0], [2.0, 4.0]])
    actnorm.initialize_from(x)
    z, log_det = actnorm(x)
    assert torch.isfinite(z).all()
    assert torch.isfinite(log_det).all()
    assert_close((3 * actnorm.log_scale[1]).exp().item(), 1e6, rtol=1e-3, atol=0)


def moved(coupling):
    """The coupling with random weights in its last layer."""
    with torch.no_grad():
        coupling.get_parameter("net.weight_out").normal_()
    return coupling


def test_couplings_shift_and_scale_by_their_networks(x):
    additive, affine = moved(AdditiveCoupling(6, 8)), moved(AffineCoupling(6, 8))
    assert all(torch.equal(each(x)[0][:, :3], x[:, :3]) for each in (additive, affine))
    z, log_det = additive(x)
    assert_close(z[:, 3:], x[:, 3:] + additive.get_submodule("net")(x[:, :3]))
    assert not log_det.any()
    z, log_det = affine(x)
    output = affine.get_submodule("net")(x[:, :3])
    scale = torch.sigmoid(output[:, [1, 3, 5]] + 2)  # shifts are the even outputs
    assert_close(z[:, 3:], (x[:, 3:] + output[:, [0, 2, 4]]) * scale)
    assert_close(log_det, scale.log().sum(1))
    with torch.no_grad():
        affine.get_parameter("net.bias_out").fill_(-200.0)
    assert torch.isfinite(affine(x)[1]).all()  # the scale underflows, its logarithm not


def matrix(layer, dim):
    """W of y = x W."""
    return layer(torch.eye(dim))[0].detach()


def test_starts_of_the_learned_mixing():
    assert torch.equal(matrix(LULinear(6), 6), torch.eye(6))
    assert torch.equal(matrix(LULinear(6, "reverse"), 6), matrix(Reverse(6), 6))
    random = matrix(LULinear(6, "random", seed=4), 6)
    assert torch.equal(random, matrix(RandomPermutation(6, seed=4), 6))
    rotation = LULinear(48, "rotation", seed=2)
    W = matrix(rotation, 48)
    # Sums of 48 rounded products: 48 x 1e-7.
    assert_close(W @ W.T, torch.eye(48), atol=1e-5, rtol=0)
    assert abs(rotation(torch.zeros(1, 48))[1].item()) < 1e-4


def test_starts_depend_on_the_seed_alone():
    def numbers(seed):
        layers = [
            MIXINGS.make(name, dim=6, init="rotation", seed=seed) for name in MIXINGS
        ]
        states = [
            layer.state_dict() for layer in (*layers, CouplingNet(64, 64, 4, seed))
        ]
        return torch.cat(
            [value.double().flatten() for state in states for value in state.values()]
        )

    before = torch.get_rng_state()
    assert torch.equal(numbers(1), numbers(1))
    assert not torch.equal(numbers(1), numbers(2))
    assert torch.equal(torch.get_rng_state(), before)
    # The standard deviation of 4,096 numbers has a standard error of 1.1%.
    assert CouplingNet(64, 64, 4).weight_1.std().item() == pytest.approx(0.05, rel=0.05)

"""Properties of every bijection: round trip, log-det against autograd, parameters moved off their start."""

from collections.abc import Callable
from functools import partial
from itertools import product

import pytest
import torch
from torch import Tensor

from flowbert.flows import (
    ActNorm,
    AdditiveCoupling,
    AffineCoupling,
    Bijection,
    Chain,
    Glow,
    LULinear,
    RandomPermutation,
    Reverse,
)
from flowbert.flows.coupling import COUPLINGS
from flowbert.flows.mixing import LU_INITS, MIXINGS

Case = tuple[int, Callable[[int], Bijection]]

LAYERS: dict[str, Case] = {
    "actnorm": (5, ActNorm),
    "actnorm_factor_1": (6, partial(ActNorm, logscale_factor=1.0)),
    **{f"lu_{init}": (7, partial(LULinear, init=init, seed=3)) for init in LU_INITS},
    "reverse": (5, Reverse),
    "random": (6, partial(RandomPermutation, seed=1)),
    "additive": (6, partial(AdditiveCoupling, hidden_dim=8)),
    "additive_odd": (7, partial(AdditiveCoupling, hidden_dim=8)),
    "affine": (10, partial(AffineCoupling, hidden_dim=8)),
    "affine_odd": (3, partial(AffineCoupling, hidden_dim=8)),
    "chain": (6, lambda dim: Chain({"a": ActNorm(dim), "b": LULinear(dim, "rotation"), "c": AffineCoupling(dim, 4)})),
}
GLOWS: dict[str, Case] = {
    f"glow_{mixing}_{coupling}_D{dim}_L{levels}": (
        dim,
        partial(Glow, levels=levels, depth=2, width=8, mixing=mixing, coupling=coupling, mixing_init="rotation"),
    )
    for mixing, coupling, (dim, levels) in product(MIXINGS, COUPLINGS, ((12, 2), (8, 3), (6, 1), (11, 4)))
}
GLOWS["glow_reverse_D1"] = (1, partial(Glow, levels=1, mixing="reverse"))

CASES = LAYERS | GLOWS


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


@pytest.fixture
def bijection(case: Case) -> Bijection:
    """A bijection in float64 and eval mode whose every parameter is away from its start."""
    dim, build = case
    module = build(dim).double().eval()
    generator = torch.Generator().manual_seed(11)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return module


@pytest.fixture
def x(case: Case) -> Tensor:
    return 2 * torch.randn(9, case[0], generator=torch.Generator().manual_seed(2), dtype=torch.float64) + 1


def test_round_trip_from_data(bijection: Bijection, x: Tensor) -> None:
    z, forward_log_det = bijection(x)
    back, inverse_log_det = bijection.inverse(z)
    torch.testing.assert_close(back, x, rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(inverse_log_det, -forward_log_det, rtol=1e-8, atol=1e-8)


def test_round_trip_from_latent(bijection: Bijection, x: Tensor) -> None:
    data, inverse_log_det = bijection.inverse(x)
    back, forward_log_det = bijection(data)
    torch.testing.assert_close(back, x, rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(inverse_log_det, -forward_log_det, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("direction", ["forward", "inverse"])
def test_log_det_is_that_of_autograds_jacobian(bijection: Bijection, x: Tensor, direction: str) -> None:
    function = getattr(bijection, direction)
    _, log_det = function(x)
    assert log_det.shape == (len(x),)
    for row, value in zip(x, log_det, strict=True):
        jacobian = torch.func.jacrev(lambda r: function(r[None])[0][0])(row)
        torch.testing.assert_close(torch.linalg.slogdet(jacobian).logabsdet, value, rtol=1e-8, atol=1e-8)


def test_rows_do_not_depend_on_each_other(bijection: Bijection, x: Tensor) -> None:
    z, log_det = bijection(x)
    one, one_log_det = bijection(x[4:5])
    torch.testing.assert_close(one, z[4:5], rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(one_log_det, log_det[4:5], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("case", [case for name, case in CASES.items() if name not in ("reverse", "random")])
def test_every_parameter_has_a_gradient(bijection: Bijection, x: Tensor) -> None:
    parameters = dict(bijection.named_parameters())
    z, log_det = bijection(x)
    gradients = torch.autograd.grad(z.square().sum() + log_det.sum(), list(parameters.values()))
    assert [name for name, gradient in zip(parameters, gradients, strict=True) if not gradient.any()] == []

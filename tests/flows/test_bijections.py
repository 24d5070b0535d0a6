"""Properties of every bijection: round trip, log-det, gradients, independence of rows."""

from functools import partial
from itertools import product
from typing import Any

import pytest
import torch

from flowbert.flows import (
    COUPLINGS,
    MIXING_INITS,
    MIXINGS,
    ActNorm,
    AdditiveCoupling,
    AffineCoupling,
    Composition,
    Glow,
    LULinear,
    RandomPermutation,
    Reverse,
    WhiteningLayer,
)

LAYERS = {
    "actnorm": (5, ActNorm),
    "reverse": (5, Reverse),
    "random": (6, partial(RandomPermutation, seed=1)),
    "additive": (6, partial(AdditiveCoupling, hidden_dim=8)),
    "additive odd": (7, partial(AdditiveCoupling, hidden_dim=8)),
    "affine": (10, partial(AffineCoupling, hidden_dim=8)),
    "affine odd": (3, partial(AffineCoupling, hidden_dim=8)),
    "composition": (
        6,
        lambda dim: Composition({"a": ActNorm(dim), "b": AffineCoupling(dim, 4)}),
    ),
}


def whitening(dim):
    """A layer that correlated rows have initialized."""
    layer = WhiteningLayer(dim)
    generator = torch.Generator().manual_seed(5)
    rows = torch.randn(40, dim, generator=generator)
    mixing = torch.eye(dim) + torch.randn(dim, dim, generator=generator) / dim
    layer.initialize_from(rows @ mixing + 3)
    return layer


def glow_after_whitening(dim, coupling):
    flow = Glow(dim, levels=3, width=8, coupling=coupling, init="whitening")
    flow.front.load_state_dict(Composition({"whitening": whitening(dim)}).state_dict())
    return flow


LAYERS |= {"whitening": (6, whitening), "whitening of one": (1, whitening)}
for init in MIXING_INITS:
    LAYERS[f"lu {init}"] = (7, partial(LULinear, init=init, seed=3))

GLOWS = {"glow D=1": (1, partial(Glow, levels=1, mixing="reverse"))}
SIZES = ((12, 2), (8, 3), (6, 1), (11, 4))
# Every pair of mixing and size, and of either and a coupling.
for (i, mixing), (j, (dim, levels)) in product(enumerate(MIXINGS), enumerate(SIZES)):
    coupling = list(COUPLINGS)[(i + j) % len(COUPLINGS)]
    names: dict[str, Any] = {"mixing": mixing, "coupling": coupling}
    names |= {"mixing_init": "rotation"}
    build = partial(Glow, levels=levels, depth=2, width=8, **names)
    GLOWS[f"glow {mixing} {coupling} D={dim} L={levels}"] = (dim, build)
for coupling in COUPLINGS:
    build = partial(glow_after_whitening, coupling=coupling)
    GLOWS[f"glow whitening {coupling}"] = (11, build)

CASES = LAYERS | GLOWS

# float64 rounds to 1e-16; the condition number of these small maps stays below 1e6.
close = partial(torch.testing.assert_close, rtol=1e-8, atol=1e-8)


@pytest.fixture(params=CASES)
def case(request):
    return CASES[request.param]


@pytest.fixture
def bijection(case):
    """In float64 and eval mode, every parameter away from its start, where couplings do nothing."""
    dim, build = case
    module = build(dim).double().eval()
    generator = torch.Generator().manual_seed(11)
    with torch.no_grad():
        for parameter in module.parameters():
            moved = torch.randn(
                parameter.shape, generator=generator, dtype=torch.float64
            )
            parameter.add_(0.2 * moved)
    return module


@pytest.fixture
def x(case):
    generator = torch.Generator().manual_seed(2)
    return 2 * torch.randn(9, case[0], generator=generator, dtype=torch.float64) + 1


def test_a_bijection(bijection, x):
    """Round trip, log-det of the Jacobian, rows that are independent, gradients."""
    for there, back in ((bijection, bijection.inverse), (bijection.inverse, bijection)):
        mapped, log_det = there(x)
        returned, log_det_back = back(mapped)
        close(returned, x)
        close(log_det_back, -log_det)
        assert log_det.shape == (len(x),)
        jacobian = torch.func.jacrev(lambda row, f=there: f(row[None])[0][0])
        jacobians = torch.func.vmap(jacobian)(x)
        close(torch.linalg.slogdet(jacobians).logabsdet, log_det)
    z, log_det = bijection(x)
    single, single_log_det = bijection(x[4:5])
    close(single, z[4:5])
    close(single_log_det, log_det[4:5])
    parameters = dict(bijection.named_parameters())
    if parameters:
        total = z.square().sum() + log_det.sum()
        gradients = torch.autograd.grad(total, list(parameters.values()))
        assert all(gradient.any() for gradient in gradients)

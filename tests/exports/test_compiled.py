"""The dense layers of a map give what the map gives."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from exports.models import AFFINE, moved_flow
from flowbert.exports.compiled import CompiledMap
from flowbert.flows.glow import INITS
from flowbert.flows.mixing import MIXING_INITS, MIXINGS
from flowbert.maps import Chain, KernelMap, Whitening, make_map
from helpers import fit

TOLERANCE = 1e-9
"""Rounding of float64, u = 1e-16: sums of fewer than 100 terms, in at most 30 layers one after
another, of maps whose condition is below 1e3."""


def rows(count=200, dim=16):
    generator = torch.Generator().manual_seed(count)
    scales = torch.linspace(1, 3, dim, dtype=torch.float64)
    x = torch.randn(count, dim, generator=generator, dtype=torch.float64)
    return x * scales + 5


def apply(compiled, x):
    """What the layers compute: y = A [h_1, ..., h_K, x] + c."""
    hidden = x[:, :0]
    for first, second in compiled.networks:
        inner = torch.cat([hidden, x], dim=1) @ first.weight.T + first.bias
        last = inner.relu() @ second.weight.T + second.bias
        hidden = torch.cat([hidden, last.relu()], dim=1)
    weight, bias = compiled.output
    return torch.cat([hidden, x], dim=1) @ weight.T + bias


def check(fitted, dim=16):
    x = rows(7, dim)
    compiled = CompiledMap(fitted, dim)
    expected = fitted.transform(x)
    bound = TOLERANCE * float(expected.abs().max())
    torch.testing.assert_close(apply(compiled, x), expected, rtol=0, atol=bound)
    return compiled


@settings(max_examples=25, deadline=None)
@given(
    dim=st.sampled_from([16, 15, 9]),
    levels=st.integers(1, 4),
    depth=st.integers(1, 3),
    width=st.integers(1, 9),
    mixing=st.sampled_from(sorted(MIXINGS)),
    mixing_init=st.sampled_from(sorted(MIXING_INITS)),
    init=st.sampled_from(INITS),
)
def test_a_flow_is_two_layers_per_coupling_and_one(
    dim, levels, depth, width, mixing, mixing_init, init
):
    flow = moved_flow(
        rows(dim=dim),
        levels=levels,
        depth=depth,
        width=width,
        mixing=mixing,
        mixing_init=mixing_init,
        init=init,
    )
    assert len(check(flow, dim).networks) == levels * depth


@pytest.mark.parametrize("name", AFFINE)
def test_an_affine_map_is_one_layer(name):
    assert not check(fit(make_map(name), rows())).networks


def test_a_chain():
    whitening = Whitening(n_components=9).fit(rows())
    flow = moved_flow(whitening.transform(rows()), levels=2, depth=2, width=4)
    other = moved_flow(rows(dim=9), levels=1, depth=1, width=3)
    kernel = KernelMap.of(rows(9).numpy()[:, :5], rows(1, 9)[0].numpy())
    chain = Chain.of(whitening, flow, other, kernel)
    assert len(check(chain).networks) == 5

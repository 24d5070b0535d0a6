"""A map folded into dense layers gives what the map gives, whatever it is made of; what cannot be folded is refused."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from flowbert import Whitening
from flowbert.calibration.base import Calibration, methods
from flowbert.errors import UserError
from flowbert.exports.compiled import Affine, compile_map
from flowbert.flows import Glow
from flowbert.flows.mixing import LU_INITS, MIXINGS
from flowbert.methods import make_calibration
from flowbert.methods.chain import Chain, Supervised
from flowbert.methods.flow import Flow

DIM = 16


def rows(count: int = 200, dim: int = DIM) -> Tensor:
    generator = torch.Generator().manual_seed(count)
    return torch.randn(count, dim, generator=generator, dtype=torch.float64) * 2 + 5


def moved_flow(dim: int = DIM, **options: Any) -> Glow:
    """A flow whose every parameter is off its start, so that nothing is the identity by chance."""
    flow = Glow(dim, **options)
    flow.initialize(rows(dim=dim).float())
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in flow.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.1)
    return flow.double().eval()


@settings(max_examples=25, deadline=None)
@given(
    levels=st.integers(1, 4),
    depth=st.integers(1, 3),
    width=st.integers(1, 9),
    mixing=st.sampled_from(sorted(MIXINGS)),
    mixing_init=st.sampled_from(LU_INITS),
)
def test_every_additive_flow(levels: int, depth: int, width: int, mixing: str, mixing_init: str) -> None:
    flow = moved_flow(levels=levels, depth=depth, width=width, mixing=mixing, mixing_init=mixing_init)
    compiled = compile_map(flow, DIM)
    assert len(compiled.outer) == levels * depth
    with torch.no_grad():
        torch.testing.assert_close(compiled(rows(7)), flow(rows(7))[0], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", sorted(methods()))
def test_every_calibration_is_one_layer(name: str) -> None:
    calibration = make_calibration(name).partial_fit(rows())
    if isinstance(calibration, Supervised):
        calibration.fit_pairs(rows(50), rows(50) + rows(51)[:50], torch.arange(50.0))
    compiled = compile_map(calibration, DIM)
    assert compiled.outer == ()
    torch.testing.assert_close(
        compiled(rows(7)), calibration.transform(rows(7), dtype=torch.float64), rtol=1e-9, atol=1e-9
    )


def test_chains_of_both() -> None:
    affine = Chain([make_calibration("standardization"), Whitening(n_components=8)]).fit(rows())
    assert compile_map(affine, DIM).last.weight.shape == (8, DIM)
    torch.testing.assert_close(compile_map(affine, DIM)(rows(7)).float(), affine.transform(rows(7)), atol=1e-5, rtol=0)
    mixed = Chain([Whitening(n_components=8), Flow({"epochs": 1, "levels": 1}), make_calibration("standardization")])
    mixed.fit(rows())
    torch.testing.assert_close(
        compile_map(mixed, DIM)(rows(7)).float(), mixed.transform(rows(7).float()), atol=1e-4, rtol=1e-4
    )
    with pytest.raises(UserError, match="a step is a Made; allowed: calibrations and flows"):
        compile_map(Chain([Whitening().fit(rows()), Made()]), DIM)


class Made:
    """A step of somebody else's."""

    def fit(self, x: Tensor) -> None:
        del x

    def transform(self, x: Tensor) -> Tensor:
        return x

    def output_dim(self, dim: int) -> int:
        return dim


def test_affine_couplings_are_refused() -> None:
    with pytest.raises(UserError, match=r"coupling: received one that multiplies .*allowed: additive, or format onnx"):
        compile_map(moved_flow(coupling="affine"), DIM)


def test_no_more_numbers_than_the_flow_has() -> None:
    flow = moved_flow(384)
    own = sum(parameter.numel() for parameter in flow.parameters() if parameter.ndim == 2)
    assert compile_map(flow, 384).floats < own


def test_the_flow_itself_stays_as_it_is() -> None:
    flow = Glow(DIM).train()
    flow.initialize(rows().float())
    before = {name: value.clone() for name, value in flow.state_dict().items()}
    compile_map(flow, DIM)
    assert flow.training
    assert flow.dtype == torch.float32
    for name, value in flow.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_layers_fold_in_their_order() -> None:
    first = Affine(torch.tensor([[2.0, 0.0], [0.0, 3.0]]), torch.tensor([1.0, 0.0]))
    then = Affine(torch.tensor([[0.0, 1.0]]), torch.tensor([5.0]))
    x = torch.tensor([[1.0, 1.0]])
    torch.testing.assert_close(then.after(first)(x), then(first(x)))
    assert isinstance(make_calibration("raw"), Calibration)

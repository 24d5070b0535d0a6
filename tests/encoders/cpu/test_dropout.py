"""The dropout whose masks are drawn four at a time: distribution, gradient, seeds, and where it is put."""

import pytest
import torch
from torch import nn

from flowbert.encoders.cpu.dropout import FastDropout, fast_dropout


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_rate_and_scale(rate: float) -> None:
    torch.manual_seed(0)
    result = FastDropout(rate)(torch.ones(400_000))
    kept = result[result != 0]
    deviation = (rate * (1 - rate) / 400_000) ** 0.5
    assert abs(float((result == 0).float().mean()) - rate) < 5 * deviation
    assert torch.allclose(kept, torch.full_like(kept, 1 / (1 - rate)), rtol=1e-4)


def test_draws_of_neighbours_are_independent() -> None:
    # Four masks come from one 64-bit draw: neighbours within it must not go together.
    torch.manual_seed(0)
    dropped = (FastDropout(0.3)(torch.ones(100_000, 4)) == 0).float()
    correlation = torch.corrcoef(dropped.T) - torch.eye(4)
    assert correlation.abs().max() < 5 / 100_000**0.5


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("shape", [(7,), (3, 5), (2, 3, 4), (0, 4)])
def test_gradient_is_the_mask_times_the_scale(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    x = torch.randn(shape, dtype=dtype, requires_grad=True)
    result = FastDropout(0.25)(x)
    result.sum().backward()
    assert (result.dtype, result.shape) == (dtype, x.shape)
    assert x.grad is not None
    assert torch.equal(x.grad, (result != 0).to(dtype).mul(4 / 3))
    torch.testing.assert_close(result, x * x.grad, rtol=2**-7 if dtype == torch.bfloat16 else 1e-5, atol=0)


def test_same_seed_same_mask() -> None:
    layer, x = FastDropout(0.4), torch.ones(1001)
    torch.manual_seed(3)
    first, second = layer(x), layer(x)
    torch.manual_seed(3)
    assert torch.equal(layer(x), first)
    assert not torch.equal(first, second)


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_ends_of_the_range(rate: float) -> None:
    assert torch.equal(FastDropout(rate)(torch.ones(9)), torch.full((9,), 1 - rate))


def test_evaluation_mode_is_the_identity() -> None:
    x = torch.randn(5)
    assert torch.equal(FastDropout(0.5).eval()(x), x)


def test_takes_the_place_of_dropout_everywhere_and_gives_it_back() -> None:
    class Own(nn.Dropout):
        pass

    own = Own(0.1)
    outer, inner = nn.Dropout(0.2), nn.Sequential(nn.Dropout(0.3).eval(), own)
    network = nn.Sequential(nn.Linear(2, 2), outer, inner)
    with fast_dropout(network):
        for layer, rate, training in ((outer, 0.2, True), (inner[0], 0.3, False)):
            assert isinstance(layer, FastDropout)
            assert (layer.p, layer.training) == (rate, training)
        assert type(inner[1]) is Own
        outer.p = 0.4
    assert [type(layer) for layer in (outer, inner[0], inner[1])] == [nn.Dropout, nn.Dropout, Own]
    assert outer.p == 0.4

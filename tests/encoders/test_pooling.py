import pytest
import torch

from flowbert.encoders.pooling import mix_layers, pool

TOKENS = torch.tensor([[[1.0, -4.0], [3.0, -2.0], [100.0, 100.0]], [[5.0, -1.0], [7.0, -8.0], [0.0, -3.0]]])
MASK = torch.tensor([[1, 1, 0], [1, 1, 1]])


@pytest.mark.parametrize(
    ("pooling", "expected"),
    [("mean", [[2.0, -3.0], [4.0, -4.0]]), ("max", [[3.0, -2.0], [7.0, -1.0]]), ("cls", [[1.0, -4.0], [5.0, -1.0]])],
)
def test_padding_is_left_out(pooling: str, expected: list[list[float]]) -> None:
    assert torch.equal(pool(TOKENS, MASK, pooling), torch.tensor(expected))


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_padding_may_hold_anything_and_gets_no_gradient(pooling: str) -> None:
    tokens = TOKENS.clone()
    tokens[0, 2] = torch.nan
    tokens.requires_grad_()
    pool(tokens, MASK, pooling).sum().backward()  # type: ignore[no-untyped-call]
    assert tokens.grad is not None
    assert torch.equal(tokens.grad[0, 2], torch.zeros(2))
    assert tokens.grad[0, :2].abs().sum() > 0


def test_layers_are_averaged_in_float32() -> None:
    states = [torch.full((1, 1, 1), value, dtype=torch.float16) for value in (60000.0, 60000.0, 1.0)]
    mixed = mix_layers(states, (0, 1))
    assert mixed.dtype == torch.float32
    assert mixed.item() == 59968.0 + 32.0  # the sum would overflow in float16


def test_unknown_pooling() -> None:
    with pytest.raises(ValueError, match=r"'maen'; .*did you mean 'mean'"):
        pool(TOKENS, MASK, "maen")

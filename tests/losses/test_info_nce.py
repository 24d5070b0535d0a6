"""InfoNCE against the official formula written another way, values and gradients."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from flowbert.errors import UserError
from flowbert.losses.info_nce import InfoNCE

TAU = 0.05


def _embeddings(count: int, batch: int = 6, dim: int = 5, seed: int = 0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(batch, dim, generator=generator, dtype=torch.float64).requires_grad_() for _ in range(count)]


def _official(h: Tensor, pos: Tensor, tau: float, hard: Tensor | None = None, weight: float = 0.0) -> Tensor:
    """The official code's steps in float64: nn.CosineSimilarity, weights on the hard block's diagonal, loss."""
    cosine = torch.nn.CosineSimilarity(dim=-1)
    logits = cosine(h.unsqueeze(1), pos.unsqueeze(0)) / tau
    if hard is not None:
        hard_logits = cosine(h.unsqueeze(1), hard.unsqueeze(0)) / tau
        size = len(hard_logits)
        weights = [[0.0] * size + [0.0] * i + [weight] + [0.0] * (size - i - 1) for i in range(size)]
        logits = torch.cat([logits, hard_logits], 1) + torch.tensor(weights)
    return -torch.log(logits.exp().diagonal() / logits.exp().sum(1)).mean()


@pytest.mark.parametrize("weight", [None, 0.0, 0.9, -1.5])
@pytest.mark.parametrize("temperature", [0.05, 1.0])
def test_value_and_gradient_are_the_official_formula_s(weight: float | None, temperature: float) -> None:
    sides = _embeddings(2 if weight is None else 3)
    hard = None if weight is None else sides[2]
    expected = _official(sides[0], sides[1], temperature, hard, weight or 0.0)
    wanted = torch.autograd.grad(expected, sides)
    loss = InfoNCE(temperature, weight or 0.0)(sides[0], sides[1], hard)
    found = torch.autograd.grad(loss, sides)
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(expected.item(), abs=1e-6, rel=1e-6)
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-5)


def test_hard_negative_weight_biases_the_own_negative_alone() -> None:
    h, pos, hard = (side.detach().float() for side in _embeddings(3, batch=2))
    unit = [(side / side.norm(dim=1, keepdim=True)).numpy() for side in (h, pos, hard)]
    rows = []
    for i in range(2):
        near = unit[0][i] @ unit[1].T
        far = unit[0][i] @ unit[2].T + np.array([2.0 if j == i else 0.0 for j in range(2)])
        rows.append(np.log(np.exp(near).sum() + np.exp(far).sum()) - near[i])
    assert InfoNCE(1.0, 2.0)(h, pos, hard).item() == pytest.approx(float(np.mean(rows)), abs=1e-6)


def test_orthogonal_sentences_have_a_known_loss() -> None:
    h = torch.eye(4)
    assert InfoNCE(1.0)(h, h).item() == pytest.approx(math.log(math.e + 3) - 1, abs=1e-6)


def test_similarity_is_float32_under_autocast_and_for_half_precision_input() -> None:
    h, pos = (side.detach().bfloat16() for side in _embeddings(2, batch=16, dim=64))
    exact = _official(h.double(), pos.double(), TAU).item()
    with torch.autocast("cpu", torch.bfloat16):
        loss = InfoNCE(TAU)(h, pos)
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(exact, abs=1e-5)


@pytest.mark.parametrize("temperature", [0.0, -0.1, math.nan])
def test_temperature_must_be_above_zero(temperature: float) -> None:
    with pytest.raises(UserError, match=r"temperature: received .*; allowed: above 0"):
        InfoNCE(temperature)


def test_a_batch_of_one_needs_a_negative() -> None:
    one = torch.ones(1, 3)
    with pytest.raises(UserError, match="batch of 1, which has no negatives; allowed: 2"):
        InfoNCE()(one, one)
    assert InfoNCE(1.0)(one, one, one).item() == pytest.approx(math.log(2))


def test_shapes_must_agree() -> None:
    with pytest.raises(ValueError, match=r"\(2, 3\), \(3, 3\)"):
        InfoNCE()(torch.ones(2, 3), torch.ones(3, 3))

"""Cosine regularization against its definition, pair by pair."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from flowbert.losses.cosreg import mean_pair_cosine


def _naive(vectors: Tensor) -> Tensor:
    pairs = [
        functional.cosine_similarity(vectors[i], vectors[j], dim=0)
        for i in range(len(vectors))
        for j in range(len(vectors))
        if i != j
    ]
    return torch.stack(pairs).mean()


def _vectors(count: int, dim: int, shift: float, seed: int = 0) -> Tensor:
    return torch.randn(count, dim, generator=torch.Generator().manual_seed(seed)) * 3 + shift


@pytest.mark.parametrize(("count", "dim", "shift"), [(2, 5, 0.0), (17, 4, 0.0), (30, 8, 2.0), (12, 3, -20.0)])
def test_value_and_gradient_of_the_definition(count: int, dim: int, shift: float) -> None:
    vectors = _vectors(count, dim, shift).requires_grad_()
    value, expected = mean_pair_cosine(vectors), _naive(vectors.double())
    torch.testing.assert_close(value.double(), expected, atol=1e-6, rtol=0)
    gradient, expected_gradient = (torch.autograd.grad(result, vectors)[0] for result in (value, expected))
    torch.testing.assert_close(gradient, expected_gradient, atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("vectors", "expected"),
    [
        (torch.tensor([[1.0, 0.0], [5.0, 0.0], [0.1, 0.0]]), 1.0),
        (torch.eye(6), 0.0),
        (torch.tensor([[1.0, 2.0], [-2.0, -4.0]]), -1.0),
    ],
)
def test_known_values(vectors: Tensor, expected: float) -> None:
    assert mean_pair_cosine(vectors).item() == pytest.approx(expected, abs=1e-6)


def test_lengths_of_the_vectors_do_not_matter() -> None:
    vectors = _vectors(20, 6, 1.0)
    scaled = vectors * torch.linspace(0.01, 100, 20)[:, None]
    torch.testing.assert_close(mean_pair_cosine(scaled), mean_pair_cosine(vectors), atol=1e-6, rtol=0)


def test_zero_rows_are_left_out_and_have_no_gradient() -> None:
    vectors = _vectors(10, 4, 1.0)
    padded = torch.cat([torch.zeros(2, 4), vectors]).requires_grad_()
    value = mean_pair_cosine(padded)
    torch.testing.assert_close(value.detach(), mean_pair_cosine(vectors))
    (gradient,) = torch.autograd.grad(value, padded)
    assert torch.isfinite(gradient).all()
    assert not gradient[:2].any()
    assert gradient[2:].any(dim=1).all()


def test_half_precision_and_autocast_compute_in_float32() -> None:
    vectors = _vectors(300, 16, 1.0).bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = mean_pair_cosine(vectors)
    assert value.dtype == torch.float32
    torch.testing.assert_close(value, mean_pair_cosine(vectors.float()), atol=0, rtol=0)


def test_a_step_against_the_gradient_spreads_the_vectors() -> None:
    vectors = _vectors(50, 8, 5.0).requires_grad_()
    before = mean_pair_cosine(vectors)
    (gradient,) = torch.autograd.grad(before, vectors)
    assert mean_pair_cosine(vectors - 10 * gradient) < before


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        (torch.ones(3), r"received shape \(3,\); allowed: \(N, D\)"),
        (torch.ones(1, 3), "received 1 vectors that are not zero; allowed: 2 or more"),
        (torch.zeros(4, 3), "received 0 vectors that are not zero"),
    ],
)
def test_bad_input(vectors: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mean_pair_cosine(vectors)

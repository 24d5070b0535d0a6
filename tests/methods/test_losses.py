"""Losses against their formulas in float64, values and gradients."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from flowbert.methods.losses import InfoNCE
from flowbert.methods.mlm import word_cosine
from flowbert.methods.sbert import cosine_loss, softmax_loss, triplet_loss
from helpers import refused

BATCH, DIM = 6, 5
LABELS = torch.tensor([0, 1, 2, 2, 1, 0])
TARGETS = torch.linspace(0, 1, BATCH)
CLASSIFIER = nn.Linear(3 * DIM, 3)
with torch.no_grad():
    for parameter in CLASSIFIER.parameters():
        parameter.copy_(torch.linspace(-1, 1, parameter.numel()).view_as(parameter))


def embeddings(count, dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randn(count, BATCH, DIM, generator=generator).to(dtype)
    return [each.requires_grad_() for each in vectors.unbind()]


def cosine(a, b):
    norms = a.square().sum(-1) * b.square().sum(-1)
    return (a * b).sum(-1) / norms.sqrt()


def info_nce(first, second, *hard):
    """The formula with temperature 0.5 and weight 0.7."""
    near = torch.exp(cosine(first[:, None], second) / 0.5)
    total = near.sum(1)
    for negative in hard:
        far = torch.exp(cosine(first[:, None], negative) / 0.5)
        total = total + far.sum(1) + (math.exp(0.7) - 1) * far.diag()
    return -(near.diag() / total).log().mean()


def softmax(u, v):
    features = torch.cat([u, v, (u - v).abs()], 1)
    logits = features @ CLASSIFIER.weight.double().T + CLASSIFIER.bias.double()
    chances = logits.softmax(1)[torch.arange(BATCH), LABELS]
    return -chances.log().mean()


def all_pairs(rows):
    cosines = [cosine(rows[i], rows[j]) for i in range(BATCH) for j in range(i)]
    return torch.stack(cosines).mean()


CASES: dict[str, tuple[int, Callable[..., Tensor], Callable[..., Tensor]]] = {
    "pairs": (2, InfoNCE(0.5, 0.7), info_nce),
    "hard negatives": (3, InfoNCE(0.5, 0.7), info_nce),
    "softmax": (2, lambda u, v: softmax_loss(u, v, LABELS, CLASSIFIER), softmax),
    "cosine": (
        2,
        lambda u, v: cosine_loss(u, v, TARGETS),
        lambda u, v: (cosine(u, v) - TARGETS).square().mean(),
    ),
    "triplet": (
        3,
        lambda a, p, n: triplet_loss(a, p, n, 0.5),
        lambda a, p, n: ((a - p).norm(dim=1) - (a - n).norm(dim=1) + 0.5).relu().mean(),
    ),
    "word cosine": (1, word_cosine, all_pairs),
}


@pytest.mark.parametrize("name", CASES)
def test_equals_its_formula(name):
    count, loss, formula = CASES[name]
    vectors, exact = embeddings(count), embeddings(count, torch.float64)
    value, expected = loss(*vectors), formula(*exact)
    pairs = zip(
        [value, *torch.autograd.grad(value, vectors)],
        [expected, *torch.autograd.grad(expected, exact)],
        strict=True,
    )
    for ours, wanted in pairs:
        # About 100 sums and products of numbers up to 10 in units of 6e-8.
        torch.testing.assert_close(ours.double(), wanted, rtol=1e-4, atol=1e-5)
    half = embeddings(count, torch.bfloat16)
    full = loss(*(vector.float() for vector in half))
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(loss(*half), full)


def test_equal_vectors_and_zeros_have_finite_gradients():
    same = torch.ones(2, 3, requires_grad=True)
    (gradient,) = torch.autograd.grad(triplet_loss(same, same, same + 0.1), same)
    assert gradient.isfinite().all()
    rows = torch.tensor([[1.0, 0.0], [0.0, 0.0], [0.0, 3.0]], requires_grad=True)
    (gradient,) = torch.autograd.grad(word_cosine(rows), rows)
    torch.testing.assert_close(gradient, torch.tensor([[0, 1], [0, 0], [1 / 3, 0]]))


def test_mistakes():
    one = torch.ones(1, 3)
    refused("batch_size: received a batch of 1", InfoNCE(), one, one)
    assert InfoNCE()(one, one, -one) < 1e-6  # one hard negative is enough

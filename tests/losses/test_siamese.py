"""The objectives of Sentence-BERT against plain numpy, values and gradients."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor

from flowbert.losses.siamese import cosine_loss, softmax_loss, triplet_loss

Floats = npt.NDArray[np.float64]
Loss = Callable[..., float]


def _embeddings(count: int, batch: int = 5, dim: int = 4) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(batch, dim, generator=generator).requires_grad_() for _ in range(count)]


def _numeric(loss: Loss, sides: list[Tensor], step: float = 1e-6) -> list[Floats]:
    """Central differences of a numpy loss of float64 copies."""
    arrays = [side.detach().double().numpy().copy() for side in sides]
    gradients = []
    for array in arrays:
        gradient = np.zeros_like(array)
        for index in np.ndindex(array.shape):
            kept = array[index]
            values = []
            for moved in (kept + step, kept - step):
                array[index] = moved
                values.append(loss(*arrays))
            array[index] = kept
            gradient[index] = (values[0] - values[1]) / (2 * step)
        gradients.append(gradient)
    return gradients


def _check(loss: Tensor, reference: Loss, sides: list[Tensor]) -> None:
    arrays = [side.detach().double().numpy() for side in sides]
    assert loss.item() == pytest.approx(reference(*arrays), abs=1e-6)
    for found, wanted in zip(torch.autograd.grad(loss, sides), _numeric(reference, sides), strict=True):
        np.testing.assert_allclose(found.numpy(), wanted, atol=1e-6)


def test_softmax() -> None:
    sides = _embeddings(2)
    weight = torch.randn(3, 12, generator=torch.Generator().manual_seed(2))
    bias = torch.tensor([0.1, -0.2, 0.3])
    labels = torch.tensor([0, 2, 1, 1, 0])

    def reference(u: Floats, v: Floats) -> float:
        logits = np.concatenate([u, v, np.abs(u - v)], 1) @ weight.double().numpy().T + bias.double().numpy()
        chances = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        return float(-np.log(chances[range(5), labels.numpy()]).mean())

    _check(softmax_loss(sides[0], sides[1], labels, weight, bias), reference, sides)


def test_cosine_regression() -> None:
    sides = _embeddings(2)
    targets = np.array([0.0, 0.2, 0.5, 0.9, 1.0], dtype=np.float32)

    def reference(u: Floats, v: Floats) -> float:
        cosines = (u * v).sum(1) / np.linalg.norm(u, axis=1) / np.linalg.norm(v, axis=1)
        return float(((cosines - targets.astype(np.float64)) ** 2).mean())

    _check(cosine_loss(sides[0], sides[1], torch.from_numpy(targets)), reference, sides)


@pytest.mark.parametrize("margin", [1.0, 0.3])
def test_triplet(margin: float) -> None:
    sides = _embeddings(3, batch=30)

    def reference(a: Floats, p: Floats, n: Floats) -> float:
        gaps = np.linalg.norm(a - p, axis=1) - np.linalg.norm(a - n, axis=1) + margin
        assert (gaps < 0).any()
        assert (gaps > 0).any()
        return float(np.maximum(gaps, 0).mean())

    _check(triplet_loss(sides[0], sides[1], sides[2], margin), reference, sides)


def test_an_anchor_equal_to_its_positive_gives_a_finite_gradient() -> None:
    anchor = torch.ones(2, 3, requires_grad=True)
    triplet_loss(anchor, anchor, anchor + 0.1).backward()  # type: ignore[no-untyped-call]
    assert anchor.grad is not None
    assert torch.isfinite(anchor.grad).all()


def test_float32_under_autocast() -> None:
    u, v, w = (side.detach().bfloat16() for side in _embeddings(3))
    labels, weight = torch.tensor([0, 1, 2, 0, 1]), torch.randn(3, 12)
    with torch.autocast("cpu", torch.bfloat16):
        mixed = [softmax_loss(u, v, labels, weight), cosine_loss(u, v, labels / 2), triplet_loss(u, v, w)]
    u, v, w = u.float(), v.float(), w.float()
    plain = [softmax_loss(u, v, labels, weight), cosine_loss(u, v, labels / 2), triplet_loss(u, v, w)]
    for a, b in zip(mixed, plain, strict=True):
        assert a.dtype == torch.float32
        torch.testing.assert_close(a, b, atol=0, rtol=0)


def test_shapes_must_agree() -> None:
    with pytest.raises(ValueError, match=r"\(2, 3\), \(1, 3\)"):
        softmax_loss(torch.ones(2, 3), torch.ones(1, 3), torch.tensor([0, 1]), torch.zeros(3, 9))
    with pytest.raises(ValueError, match="allowed: one shape"):
        triplet_loss(torch.ones(2, 3), torch.ones(2, 3), torch.ones(2, 2))

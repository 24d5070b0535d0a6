"""Rows times a lower and an upper triangle, without most of the products with zeros."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

# A training step of the flow on a CPU is 1.15 to 1.37 times as fast at D = 768, 1.34 at 1024,
# but 0.97 at 512 and 0.94 at 384.
MIN_DIM = 640
_TRIANGLE = 256


def lu_product(x: Tensor, triangles: Tensor, diagonal: Tensor) -> Tensor:
    r"""The product :math:`x\,L\,(U + \mathrm{diag}(d))`, with L unit lower, U strictly upper.

    Args:
        x: Rows, ``(B, D)``.
        triangles: L below and U above the diagonal, which is unused, ``(D, D)``.
        diagonal: d, ``(D,)``.

    Returns:
        ``(B, D)``; it can be differentiated once.
    """
    product: Tensor = _LUProduct.apply(x, triangles, diagonal)  # type: ignore[no-untyped-call]
    return product


class _LUProduct(torch.autograd.Function):
    """One node of the graph, so that the gradient of both triangles is written once."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, triangles: Tensor, diagonal: Tensor) -> Tensor:
        middle = x + _times_lower(x, triangles)
        ctx.save_for_backward(x, triangles, diagonal, middle)
        return middle * diagonal + _times_upper(middle, triangles)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x, triangles, diagonal, middle = ctx.saved_tensors
        middle_gradient = gradient * diagonal + _times_lower(gradient, triangles.T)
        x_gradient = middle_gradient + _times_upper(middle_gradient, triangles.T)
        triangles_gradient = torch.empty_like(triangles)
        for a, b in _blocks(x.shape[1]):
            left, right = x[:, a:b].T, middle[:, a:b].T
            torch.mm(left, middle_gradient[:, :a], out=triangles_gradient[a:b, :a])
            torch.mm(right, gradient[:, b:], out=triangles_gradient[a:b, b:])
            lower = (left @ middle_gradient[:, a:b]).tril_(-1)
            upper = (right @ gradient[:, a:b]).triu_(1)
            triangles_gradient[a:b, a:b] = lower + upper
        return x_gradient, triangles_gradient, (gradient * middle).sum(0)


def _times_lower(x: Tensor, triangles: Tensor) -> Tensor:
    """Rows times what is below the diagonal."""
    parts = [x[:, a:] @ triangles[a:, a:b].tril(-1) for a, b in _blocks(x.shape[1])]
    return torch.cat(parts, dim=1)


def _times_upper(x: Tensor, triangles: Tensor) -> Tensor:
    """Rows times what is above the diagonal."""
    parts = [x[:, :b] @ triangles[:b, a:b].triu(1 - a) for a, b in _blocks(x.shape[1])]
    return torch.cat(parts, dim=1)


def _blocks(dim: int) -> list[tuple[int, int]]:
    """First column of each block and its end."""
    return [(start, min(start + _TRIANGLE, dim)) for start in range(0, dim, _TRIANGLE)]

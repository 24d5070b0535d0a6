"""Rows times a lower and an upper triangle, most of whose zeros are not computed."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

_WIDTH = 128  # columns at a time; fewer skip more zeros, in products too small to be fast (measured at D = 768)


def lu_product(x: Tensor, triangles: Tensor, diagonal: Tensor) -> Tensor:
    r""":math:`x\,L\,(U + \mathrm{diag}(d))`, with L unit lower and U strictly upper triangular.

    Args:
        x: Rows, ``(B, D)``.
        triangles: L below and U above the diagonal, which is not read, ``(D, D)``.
        diagonal: d, ``(D,)``.

    Returns:
        ``(B, D)``.

    Example:
        >>> lu_product(torch.ones(1, 2), torch.tensor([[9.0, 3.0], [2.0, 9.0]]), torch.ones(2))
        tensor([[ 3., 10.]])
    """
    product, _ = _LUProduct.apply(x, triangles, diagonal)  # type: ignore[no-untyped-call]
    result: Tensor = product
    return result


class _LUProduct(torch.autograd.Function):
    """Both products as one node of the graph: the gradient of the triangles is written once, each side into its place.

    The second output is what stands between the two products; without a gradient, so that a second derivative would
    be wrong, and is an error.
    """

    @staticmethod
    def forward(x: Tensor, triangles: Tensor, diagonal: Tensor) -> tuple[Tensor, Tensor]:
        between = _plus_lower(x.clone(), x, triangles)
        return _plus_upper(between * diagonal, between, triangles), between

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(*inputs, output[1])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor | None, Tensor]:
        x, triangles, diagonal, between = ctx.saved_tensors
        outer = gradients[0]
        inner = _plus_lower(outer * diagonal, outer, triangles.T)
        before = _plus_upper(inner.clone(), inner, triangles.T)
        sides = _sides(x, inner, between, outer) if ctx.needs_input_grad[1] else None
        return before, sides, (outer * between).sum(0)


def _plus_lower(result: Tensor, x: Tensor, triangles: Tensor) -> Tensor:
    """Add to the result, in place, rows times what stands below the diagonal."""
    for a, b in _blocks(result):
        result[:, a:b] += x[:, a:] @ triangles[a:, a:b].tril(-1)
    return result


def _plus_upper(result: Tensor, x: Tensor, triangles: Tensor) -> Tensor:
    """Add to the result, in place, rows times what stands above the diagonal."""
    for a, b in _blocks(result):
        result[:, a:b] += x[:, :b] @ triangles[:b, a:b].triu(1 - a)
    return result


def _sides(x: Tensor, inner: Tensor, between: Tensor, outer: Tensor) -> Tensor:
    """What stands below the diagonal of ``x.T @ inner`` and above that of ``between.T @ outer``; zeros on it."""
    sides = torch.empty(x.shape[1], x.shape[1], dtype=x.dtype, device=x.device)
    for a, b in _blocks(x):
        torch.mm(x[:, a:b].T, inner[:, :a], out=sides[a:b, :a])
        torch.mm(between[:, a:b].T, outer[:, b:], out=sides[a:b, b:])
        lower, upper = x[:, a:b].T @ inner[:, a:b], between[:, a:b].T @ outer[:, a:b]
        sides[a:b, a:b] = lower.tril_(-1) + upper.triu_(1)
    return sides


def _blocks(rows: Tensor) -> Iterator[tuple[int, int]]:
    """First column of each block and its end; on an accelerator, where a small product takes as long, there is one."""
    dim = rows.shape[1]
    width = _WIDTH if rows.device.type == "cpu" else dim
    return ((start, min(start + width, dim)) for start in range(0, dim, width))

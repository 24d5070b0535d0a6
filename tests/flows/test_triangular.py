import pytest
import torch
from torch import Tensor

from flowbert.flows import triangular
from flowbert.flows.triangular import lu_product


def dense(x: Tensor, triangles: Tensor, diagonal: Tensor) -> Tensor:
    lower = torch.eye(len(triangles), dtype=x.dtype) + triangles.tril(-1)
    return x @ lower @ (triangles.triu(1) + diagonal.diag())


def inputs(dim: int, rows: int = 3) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(dim)
    shapes = ((rows, dim), (dim, dim), (dim,))
    return tuple(
        (torch.randn(shape, generator=generator, dtype=torch.float64) / dim**0.5).requires_grad_() for shape in shapes
    )


@pytest.mark.parametrize("dim", [1, 2, 127, 128, 129, 300])
def test_equals_the_dense_product_with_its_gradients(dim: int) -> None:
    given = inputs(dim)
    target = torch.randn(3, dim, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    found, expected = lu_product(*given), dense(*given)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    for mine, theirs in zip(
        torch.autograd.grad(found, given, target), torch.autograd.grad(expected, given, target), strict=True
    ):
        torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-12)


def test_the_diagonal_of_the_triangles_is_not_read_and_has_no_gradient() -> None:
    x, triangles, diagonal = inputs(130)
    product = lu_product(x, triangles, diagonal).detach()
    with torch.no_grad():
        triangles.fill_diagonal_(torch.nan)
    found = lu_product(x, triangles, diagonal)
    assert torch.equal(found, product)
    found.sum().backward()  # type: ignore[no-untyped-call]
    assert triangles.grad is not None
    assert not triangles.grad.diagonal().any()


def test_a_second_derivative_is_an_error() -> None:
    given = inputs(5)
    first = torch.autograd.grad(lu_product(*given).square().sum(), given, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first[0].sum().backward()  # type: ignore[no-untyped-call]


def test_the_width_of_a_block_plays_no_role(monkeypatch: pytest.MonkeyPatch) -> None:
    given = inputs(20)
    found = []
    for width in (1, 3, 20, 64):
        monkeypatch.setattr(triangular, "_WIDTH", width)
        found.append([lu_product(*given), *torch.autograd.grad(lu_product(*given).square().sum(), given)])
    for others in zip(*found, strict=True):
        for other in others[1:]:
            torch.testing.assert_close(other, others[0], rtol=1e-12, atol=1e-12)

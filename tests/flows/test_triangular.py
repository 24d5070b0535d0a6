"""The blockwise product against the dense one, in a dimension of several blocks."""

from functools import partial

import pytest
import torch

from flowbert.flows.mixing import LUProduct

# float64 sums of 700 products: 700 x 1e-16.
close = partial(torch.testing.assert_close, rtol=1e-12, atol=1e-12)


def inputs(dim):
    shapes = ((3, dim), (dim, dim), (dim,))
    tensors = [torch.randn(shape, dtype=torch.float64) for shape in shapes]
    return [(tensor / dim**0.5).requires_grad_() for tensor in tensors]


@pytest.mark.parametrize("dim", [1, 255, 256, 257, 700])
def test_equals_the_dense_product_with_its_gradients(dim):
    x, triangles, diagonal = inputs(dim)
    lower = torch.eye(dim, dtype=torch.float64) + triangles.tril(-1)
    dense = x @ lower @ (triangles.triu(1) + diagonal.diag())
    product = LUProduct.apply(x, triangles, diagonal)
    close(product, dense)
    target = torch.randn(3, dim).double()
    gradients = torch.autograd.grad(product, (x, triangles, diagonal), target)
    expected = torch.autograd.grad(dense, (x, triangles, diagonal), target)
    for gradient, value in zip(gradients, expected, strict=True):
        close(gradient, value)

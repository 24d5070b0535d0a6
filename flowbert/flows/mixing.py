"""Layers that mix or reorder the dimensions between two couplings."""

from typing import Any

import torch
from torch import Tensor, nn

from flowbert.errors import check_choice
from flowbert.flows.bijection import Bijection
from flowbert.flows.triangular import MIN_DIM, lu_product
from flowbert.registry import Registry
from flowbert.seeding import Stream

MIXING_INITS = ("identity", "reverse", "random", "rotation")

MIXINGS: Registry[Any] = Registry("mixing", given=("dim", "init", "seed"))
"""Mixings by name; they take ``dim``, ``init`` and ``seed``, and options of their own."""


@MIXINGS.register("lu")
class LULinear(Bijection):
    r"""Invertible 1x1 convolution of Glow: :math:`z = x W` with a learned W.

    .. math:: W = P L (U + \mathrm{diag}(\sigma e^{a}))

    P is a fixed permutation, L unit lower and U strictly upper triangular, :math:`\sigma` fixed
    signs. The factors are applied one after another in :math:`O(B D^2)`; the log-det is
    :math:`\sum_d a_d` and the inverse two triangular solves. ``triangles`` holds L below and U
    above its diagonal, which is unused.

    References:
        Glow: Generative Flow with Invertible 1x1 Convolutions (Kingma and Dhariwal, 2018).
        https://arxiv.org/abs/1807.03039

    Args:
        dim: Vector size D.
        init: Initial W: ``identity``, the permutations ``reverse`` and ``random``, or a random
            ``rotation``.
        seed: Seed of ``random`` and ``rotation``.

    Raises:
        UserError: If ``init`` is not one of these names.

    Example:
        >>> LULinear(3, init="reverse")(torch.tensor([[1.0, 2.0, 3.0]]))[0].detach()
        tensor([[3., 2., 1.]])
    """

    permutation: Tensor
    sign: Tensor

    def __init__(self, dim: int, init: str = "identity", seed: int = 0) -> None:
        super().__init__()
        check_choice("mixing_init", init, MIXING_INITS)
        permutation, triangles, diagonal = _initial_factors(dim, init, seed)
        self.triangles = nn.Parameter(triangles)
        self.log_diagonal = nn.Parameter(diagonal.abs().log())
        self.register_buffer("permutation", permutation)
        self.register_buffer("sign", diagonal.sign())

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Multiply by P, by L, then by U plus the diagonal."""
        x = x[:, self.permutation]
        if x.shape[1] >= MIN_DIM and x.device.type == "cpu":
            z = lu_product(x, self.triangles, self._diagonal())
        else:
            x = x + x @ self.triangles.tril(-1)
            z = x * self._diagonal() + x @ self.triangles.triu(1)
        return z, self.log_diagonal.sum().expand(z.shape[0])

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Solve for the upper factor, for the lower factor, then undo the permutation."""
        solve = torch.linalg.solve_triangular
        upper = torch.diagonal_scatter(self.triangles, self._diagonal())
        x = solve(upper, z, upper=True, left=False)
        x = solve(self.triangles, x, upper=False, left=False, unitriangular=True)
        return x[:, self.permutation.argsort()], -self.log_diagonal.sum().expand(
            z.shape[0]
        )

    def _diagonal(self) -> Tensor:
        return self.sign * self.log_diagonal.exp()


def _initial_factors(dim: int, init: str, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Permutation as column indices (x P = x[:, indices]), triangles and diagonal of W."""
    generator = Stream(seed, "mixing").generator()
    if init == "rotation":
        # In float64, so that the product of the rounded factors is orthogonal to float32 accuracy.
        numbers = torch.randn(dim, dim, generator=generator, dtype=torch.float64)
        P, L, U = torch.linalg.lu(torch.linalg.qr(numbers).Q)
        return P.argmax(0), (L.tril(-1) + U.triu(1)).float(), U.diagonal().float()
    permutation = torch.arange(dim)
    if init == "reverse":
        permutation = permutation.flip(0)
    if init == "random":
        permutation = torch.randperm(dim, generator=generator)
    return permutation, torch.zeros(dim, dim), torch.ones(dim)


class Reverse(Bijection):
    r"""Reversal of the dimensions: :math:`z_d = x_{D+1-d}`, log-det 0 (official configuration).

    Args:
        dim: Vector size D; the map does not depend on it.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Reverse the dimensions."""
        return x.flip(1), x.new_zeros(x.shape[0])

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Reverse them again."""
        return self.forward(z)


class RandomPermutation(Bijection):
    r"""Fixed random permutation of the dimensions: :math:`z_d = x_{\pi(d)}`, log-det 0.

    Args:
        dim: Vector size D.
        seed: Seed of the permutation, which is a buffer and so part of the state.
    """

    permutation: Tensor

    def __init__(self, dim: int, seed: int = 0) -> None:
        super().__init__()
        generator = Stream(seed, "mixing").generator()
        self.register_buffer("permutation", torch.randperm(dim, generator=generator))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Reorder the dimensions."""
        return x[:, self.permutation], x.new_zeros(x.shape[0])

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Restore the order."""
        return z[:, self.permutation.argsort()], z.new_zeros(z.shape[0])


@MIXINGS.register("reverse")
def _reverse(dim: int, **_: Any) -> Reverse:
    return Reverse(dim)


@MIXINGS.register("random")
def _random(dim: int, seed: int, **_: Any) -> RandomPermutation:
    return RandomPermutation(dim, seed)

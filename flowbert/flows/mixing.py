"""Layers that mix or reorder the dimensions between two couplings."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from flowbert.errors import UserError, choices
from flowbert.flows.bijection import Bijection
from flowbert.flows.triangular import lu_product
from flowbert.seeding import Stream

LU_INITS = ("identity", "reverse", "random", "rotation")


class LULinear(Bijection):
    r"""Learned invertible linear map :math:`z = x W`, :math:`W = P L (U + \mathrm{diag}(\sigma e^{a}))`.

    P is a fixed permutation, L unit lower and U strictly upper triangular, :math:`\sigma` fixed signs. The factors are
    applied one after another, which costs :math:`O(B D^2)`; W itself would cost :math:`O(D^3)` a step. The log-det is
    :math:`\sum_d a_d`; the inverse is two triangular solves. ``triangles`` holds L below and U above its diagonal,
    which is unused.

    References:
        Glow: Generative Flow with Invertible 1x1 Convolutions (Kingma and Dhariwal, 2018). https://arxiv.org/abs/1807.03039

    Args:
        dim: Vector size D.
        init: What W is at the start: ``identity``, ``reverse`` or ``random`` (permutations), ``rotation`` (random).
        seed: Seed of ``random`` and ``rotation``.

    Shapes:
        x, z: ``(B, D)``; log_det: ``(B,)``, nats.

    Raises:
        UserError: If ``init`` is not one of the names above.

    Example:
        >>> import torch
        >>> from flowbert.flows import LULinear
        >>> LULinear(3, init="reverse")(torch.tensor([[1.0, 2.0, 3.0]]))[0].detach()
        tensor([[3., 2., 1.]])
    """

    permutation: Tensor
    sign: Tensor

    def __init__(self, dim: int, init: str = "identity", seed: int = 0) -> None:
        super().__init__()
        permutation, triangles, diagonal = _initial_factors(dim, init, seed)
        self.triangles = nn.Parameter(triangles)
        self.log_diagonal = nn.Parameter(diagonal.abs().log())
        self.register_buffer("permutation", permutation)
        self.register_buffer("sign", diagonal.sign())

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Multiply by P, by L, then by U plus the diagonal."""
        z = lu_product(x[:, self.permutation], self.triangles, self._diagonal())
        return z, self.log_diagonal.sum().expand(z.shape[0])

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Solve for the upper factor, for the lower factor, then undo the permutation."""
        upper = torch.diagonal_scatter(self.triangles, self._diagonal())
        x = torch.linalg.solve_triangular(upper, z, upper=True, left=False)
        x = torch.linalg.solve_triangular(self.triangles, x, upper=False, left=False, unitriangular=True)
        return x[:, self.permutation.argsort()], -self.log_diagonal.sum().expand(z.shape[0])

    def _diagonal(self) -> Tensor:
        return self.sign * self.log_diagonal.exp()


class Reverse(Bijection):
    r"""Reversal of the dimensions: :math:`z_d = x_{D+1-d}`, log-det 0 (the official BERT-flow configuration).

    Args:
        dim: Vector size D; the map does not depend on it.

    Shapes:
        x, z: ``(B, D)``; log_det: ``(B,)``.
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

    Shapes:
        x, z: ``(B, D)``; log_det: ``(B,)``.
    """

    permutation: Tensor

    def __init__(self, dim: int, seed: int = 0) -> None:
        super().__init__()
        self.register_buffer("permutation", torch.randperm(dim, generator=Stream(seed, "mixing").generator()))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Reorder the dimensions."""
        return x[:, self.permutation], x.new_zeros(x.shape[0])

    def inverse(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Restore the order."""
        return z[:, self.permutation.argsort()], z.new_zeros(z.shape[0])


MIXINGS: dict[str, Callable[[int, str, int], Bijection]] = {
    "lu": LULinear,
    "reverse": lambda dim, _init, _seed: Reverse(dim),
    "random": lambda dim, _init, seed: RandomPermutation(dim, seed),
}
"""What makes each mixing of vector size D, start (of what is learned) and seed (of what is random)."""


def _initial_factors(dim: int, init: str, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Permutation as column indices (x P = x[:, indices]), packed triangles and diagonal of the starting W."""
    if init not in LU_INITS:
        raise UserError(f"mixing_init: received {init!r}; {choices(LU_INITS, init)}")
    generator = Stream(seed, "mixing").generator()
    if init == "rotation":
        # In float64, so that the product of the rounded factors is orthogonal to float32 accuracy.
        rotation = torch.linalg.qr(torch.randn(dim, dim, generator=generator, dtype=torch.float64)).Q
        P, L, U = torch.linalg.lu(rotation)
        return P.argmax(0), (L.tril(-1) + U.triu(1)).float(), U.diagonal().float()
    permutation = torch.randperm(dim, generator=generator) if init == "random" else torch.arange(dim)
    return permutation.flip(0) if init == "reverse" else permutation, torch.zeros(dim, dim), torch.ones(dim)

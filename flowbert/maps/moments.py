r"""Count, mean and covariance of rows that come in chunks, in :math:`O(D^2)` memory and float64."""

import hashlib
from collections.abc import Iterable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

ROWS_PER_SUM = 1024  # what the caches of a CPU hold
ROWS_PER_DIRECTION = 5
"""Distinct rows per direction below which shrinkage is advised (docs/how-it-works.md)."""


class Moments:
    r"""Streaming moments :math:`n`, :math:`\bar x` and :math:`\sum (x - \bar x)(x - \bar x)^T`.

    Sums are taken around the mean of the first rows, so that they do not cancel, and in blocks of
    :data:`ROWS_PER_SUM` rows, whatever the chunks: the same rows give the same bits.

    Args:
        dim: Embedding size D.

    Attributes:
        count: Number of rows.
    """

    def __init__(self, dim: int) -> None:
        self.dim = dim
        self.count = 0
        self._added = 0
        self._shift = torch.zeros(dim, dtype=torch.float64)
        self._sum = torch.zeros(dim, dtype=torch.float64)
        self._products = torch.zeros(dim, dim, dtype=torch.float64)
        self._waiting = torch.zeros(0, dim)  # rows that do not fill a block yet
        self._seen: set[bytes] = set()
        self._eigen: tuple[Tensor, Tensor] | None = None
        self._complete: Moments | None = None

    @property
    def enough(self) -> int:
        """Distinct rows up to which they are counted."""
        return ROWS_PER_DIRECTION * self.dim + 2

    @property
    def distinct(self) -> int:
        """Number of distinct rows, exact below :attr:`enough`."""
        return min(len(self._seen), self.enough)

    def update(self, x: Tensor) -> "Moments":
        """Add rows ``(N, D)``. Returns self."""
        x = x.detach()
        if x.device.type == "mps":  # it has no float64
            x = x.cpu()
        self._eigen = self._complete = None
        self.count += len(x)
        for block in torch.split(x, ROWS_PER_SUM):
            self._count_distinct(block)
        rows = x
        if len(self._waiting):
            rows = torch.cat([self._waiting.to(x.device), x])
        whole = len(rows) - len(rows) % ROWS_PER_SUM
        for start in range(0, whole, ROWS_PER_SUM):
            self._add(rows[start : start + ROWS_PER_SUM])
        self._waiting = rows[whole:].clone()
        return self

    def _add(self, block: Tensor) -> None:
        if not self._added:
            self._shift = block.to("cpu", torch.float64).mean(dim=0)
        rows = block - self._shift.to(block.device)
        self._sum += rows.sum(dim=0).cpu()
        self._products = self._products.to(block.device)
        _add_products(self._products, rows)
        self._added += len(block)

    def copy(self) -> "Moments":
        """The same moments, to which rows can be added."""
        other = Moments(self.dim)
        vars(other).update(vars(self))
        other._sum, other._products = self._sum.clone(), self._products.clone()
        other._seen = set(self._seen)
        return other

    def _all(self) -> "Moments":
        """These moments with the rows that wait."""
        if not len(self._waiting):
            return self
        if self._complete is None:
            self._complete = self.copy()
            self._complete._add(self._waiting)
            self._complete._waiting = self._waiting[:0]
        return self._complete

    def update_blocks(self, blocks: Iterable[NDArray[np.float32]]) -> "Moments":
        """Add rows block by block. Returns self."""
        for block in blocks:
            self.update(torch.from_numpy(block))
        return self

    def _count_distinct(self, block: Tensor) -> None:
        if len(self._seen) >= self.enough:
            return
        # Equal rows of another dtype must be equal here, too, and -0.0 equals 0.0.
        rows = (block.cpu().to(torch.float64) + 0.0).numpy()
        for row in rows:
            self._seen.add(hashlib.blake2b(row.tobytes(), digest_size=8).digest())

    @property
    def mean(self) -> Tensor:
        """Mean of the rows, ``(D,)``, float64."""
        every = self._all()
        return every._shift + every._sum / max(self.count, 1)

    def covariance(self) -> Tensor:
        """Covariance ``(D, D)``, divisor N - 1; zero for a single row."""
        every = self._all()
        offset = every._sum / max(self.count, 1)
        upper = every._products.cpu().triu()
        scatter = upper + upper.triu(1).T
        scatter -= self.count * torch.outer(offset, offset)
        return scatter / max(self.count - 1, 1)

    def eigen(self) -> tuple[Tensor, Tensor]:
        """Eigenvalues ``(D,)``, falling, and eigenvectors ``(D, D)`` of the covariance.

        The largest entry of each eigenvector is positive, so that it is the same on every machine.
        """
        if self._eigen is None:
            values, vectors = torch.linalg.eigh(self.covariance())
            values, vectors = values.flip(0).clamp_min(0.0), vectors.flip(1)
            largest = vectors.abs().argmax(dim=0)
            signs = vectors.gather(0, largest[None])[0].sign()
            self._eigen = values, vectors * signs
        return self._eigen

    def oas_shrinkage(self) -> float:
        """Weight of the mean eigenvalue by the oracle approximating shrinkage estimator.

        References:
            Shrinkage Algorithms for MMSE Covariance Estimation (Chen et al., 2010).
            https://arxiv.org/abs/0907.4698
        """
        covariance = self.covariance() * ((self.count - 1) / max(self.count, 1))
        squares = float(covariance.square().mean())
        mean = float(covariance.trace()) / self.dim
        denominator = (self.count + 1) * (squares - mean**2 / self.dim)
        return 1.0 if denominator <= 0 else min((squares + mean**2) / denominator, 1.0)


def _add_products(total: Tensor, rows: Tensor) -> None:
    """Add the upper triangle of ``rows.T @ rows`` in four panels: three eighths fewer products."""
    width = -(-rows.shape[1] // 4)
    for start in range(0, rows.shape[1], width):
        panel = rows[:, start : start + width]
        total[start : start + width, start:].addmm_(panel.T, rows[:, start:])

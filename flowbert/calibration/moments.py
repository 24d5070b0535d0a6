r"""Count, mean and centred moments of rows seen in any chunks, in :math:`O(D^2)` memory and float64."""

import math
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from flowbert.calibration.few_rows import ENOUGH, DistinctRows
from flowbert.errors import UserError
from flowbert.threads import MANY, in_threads

_BLOCK_ROWS = 1024  # what a processor's caches hold
_KEYS = ("count", "shift", "offset", "scatter", "third", "fourth")


class Moments:
    r"""Streaming moments :math:`n, m = \bar x, M = \sum (x - m)(x - m)^T, \sum |x - m|^2 (x - m), \sum |x - m|^4`.

    The mean is held as ``shift + offset``, the shift being the first batch's mean: a mean of 1e4 then costs no digits,
    neither in the products nor when two means are subtracted in :meth:`merge`. Each batch is centred on its own mean
    before it is squared, and batches are combined by the exact re-centring formulas, so every chunking and every order
    of merging gives the same up to float64 rounding. The last two moments are all that Ledoit-Wolf shrinkage needs.
    Distinct rows are counted as far as it matters: see :attr:`distinct`.

    References:
        Updating Formulae and a Pairwise Algorithm for Computing Sample Variances (Chan, Golub, LeVeque, 1979).
        http://i.stanford.edu/pub/cstr/reports/cs/tr/79/773/CS-TR-79-773.pdf

        A well-conditioned estimator for large-dimensional covariance matrices (Ledoit, Wolf, 2004).
        https://doi.org/10.1016/S0047-259X(03)00096-4

    Args:
        dim: Vector size D, at least 1.
        device: Where the statistics live; rows from elsewhere are moved there.

    Shapes:
        rows: ``(N, D)``; shift, offset, mean, third: ``(D,)``; scatter, covariance: ``(D, D)``; fourth: ``()``.

    Raises:
        ValueError: If ``dim`` is below 1.

    Example:
        >>> x = torch.tensor([[0.0, 2.0], [2.0, 4.0], [4.0, 0.0]])
        >>> moments = Moments(2).update(x[:2]).update(x[2:])
        >>> moments.count, moments.mean.tolist(), moments.covariance().round(decimals=9).tolist()
        (3, [2.0, 2.0], [[4.0, -2.0], [-2.0, 4.0]])
    """

    def __init__(self, dim: int, device: torch.device | str = "cpu") -> None:
        if dim < 1:
            raise ValueError(f"dim is {dim}; allowed: a whole number of at least 1")
        self.dim = dim
        self.count = 0
        self.shift = torch.zeros(dim, dtype=torch.float64, device=device)
        self.offset = torch.zeros_like(self.shift)
        self.scatter = torch.zeros(dim, dim, dtype=torch.float64, device=device)
        self.third = torch.zeros_like(self.shift)
        self.fourth = torch.zeros((), dtype=torch.float64, device=device)
        self._rows = DistinctRows(ENOUGH * dim + 2)
        self._eigen = _Eigen()

    @property
    def distinct(self) -> int:
        """Number of distinct rows, exact up to ``ENOUGH * D + 2``, where the counting stops."""
        return int(self._rows)

    def update(self, x: Tensor) -> "Moments":
        """Add the rows of ``x`` of shape ``(N, D)``; N may be 0. Returns self.

        Raises:
            ValueError: If the shape is another.
        """
        if x.ndim != 2 or x.shape[1] != self.dim:
            raise ValueError(f"rows have the shape {tuple(x.shape)}; allowed: (N, {self.dim})")
        if len(x):
            self.merge(self._of(x.detach()))
            self._rows.update(x)
        return self

    def _of(self, x: Tensor) -> "Moments":
        """Moments of some rows around their own mean, which is found first.

        Each worker has a block and D^2 numbers in memory.
        """
        device = self.shift.device
        part = Moments(self.dim, device)
        part.count = len(x)
        part.shift = self.shift.clone() if self.count else x[:_BLOCK_ROWS].to(device, torch.float64).mean(dim=0)
        # Which rows are added up together must not depend on the number of threads: it decides the last bits.
        groups = torch.split(x, _BLOCK_ROWS * min(max(len(x) // _BLOCK_ROWS // 8, 2), 8))
        workers = MANY if device.type == "cpu" else 1
        with in_threads(lambda rows: _sum(rows, part.shift), groups, workers) as sums:
            part.offset = sum(sums, part.offset) / part.count
        with in_threads(lambda rows: _powers(rows, part.shift, part.offset), groups, workers) as powers:
            for scatter, third, fourth in powers:
                part.scatter += scatter
                part.third += third
                part.fourth += fourth
        part.scatter += part.scatter.triu(1).T
        return part

    def merge(self, other: "Moments") -> "Moments":
        """Add the rows that ``other`` has seen, whatever its shift; ``other`` is left as it is. Returns self.

        Raises:
            ValueError: If the vector sizes differ.
        """
        if other.dim != self.dim:
            raise ValueError(f"moments of {other.dim} dimensions cannot be merged into moments of {self.dim}")
        self._rows.merge(other._rows)
        if other.count == 0:
            return self
        if other.shift.device != self.shift.device:
            other = other.to(self.shift.device)
        if self.count == 0:
            self.shift = other.shift.clone()
        self._eigen = _Eigen() if self.count else other._eigen
        total = self.count + other.count
        # Shifts are subtracted from each other first: both are large and alike, so the difference is exact.
        difference = (other.shift - self.shift) + (other.offset - self.offset)
        (third, fourth), (other_third, other_fourth) = (
            self._around(difference * (-other.count / total)),
            other._around(difference * (self.count / total)),
        )
        self.third, self.fourth = third + other_third, fourth + other_fourth
        between = torch.outer(difference, difference)
        self.scatter.add_(other.scatter).add_(between, alpha=self.count * other.count / total)
        self.offset = self.offset + difference * (other.count / total)
        self.count = total
        return self

    def _around(self, step: Tensor) -> tuple[Tensor, Tensor]:
        r"""Third and fourth moment of the rows :math:`(x - m) + \mathrm{step}`."""
        trace, squared_step, scattered = self.scatter.trace(), step @ step, self.scatter @ step
        third = self.third + 2 * scattered + (trace + self.count * squared_step) * step
        fourth = self.fourth + 4 * (step @ scattered + self.third @ step)
        return third, fourth + squared_step * (2 * trace + self.count * squared_step)

    def to(self, device: torch.device | str) -> "Moments":
        """The same statistics on ``device`` (a copy)."""
        moved = Moments.from_state_dict({key: value.to(device) for key, value in self.state_dict().items()})
        moved._eigen = self._eigen
        return moved

    def with_scatter(self, scatter: Tensor) -> "Moments":
        """A copy with another scatter matrix (zero without rows); third and fourth moment do not follow."""
        changed = Moments.from_state_dict(self.state_dict())
        changed.scatter = scatter
        return changed

    @property
    def mean(self) -> Tensor:
        """Mean of the rows, shape ``(D,)``, float64."""
        return self.shift + self.offset

    def covariance(self, correction: int = 1) -> Tensor:
        r"""Covariance :math:`M / (n - \mathrm{correction})` of shape ``(D, D)``; all zero for a single row."""
        return self.scatter / max(self.count - correction, 1)

    def eigen(self) -> tuple[Tensor, Tensor]:
        """Eigenvalues ``(D,)``, rising, and eigenvectors ``(D, D)`` of the covariance, float64, on the CPU.

        They are found once for all copies of the same statistics.
        """
        if self._eigen.found is None:
            values, vectors = torch.linalg.eigh(self.covariance().cpu())
            self._eigen.found = values, vectors
        return self._eigen.found

    def ledoit_wolf_shrinkage(self) -> float:
        r"""Optimal weight in [0, 1] of the mean eigenvalue times I, from the streamed moments.

        With :math:`S = M / n` and :math:`\mu = \operatorname{tr} S / D`, it is :math:`\min(\beta, \delta) / \delta` for
        :math:`\beta = (\sum |x - m|^4 / n - \|S\|_F^2) / (n D)`, :math:`\delta = \|S - \mu I\|_F^2 / D`. Equal to
        ``sklearn.covariance.ledoit_wolf`` on the same rows.
        """
        if self.count == 0 or self.dim == 1:
            return 0.0
        covariance = self.covariance(correction=0)
        deviation = covariance - torch.eye(self.dim, dtype=torch.float64, device=covariance.device) * (
            covariance.trace() / self.dim
        )
        delta = float(deviation.square().sum()) / self.dim
        spread = float(self.fourth / self.count - covariance.square().sum())
        beta = min(max(spread / (self.count * self.dim), 0.0), delta)
        return beta / delta if beta > 0 and math.isfinite(delta) else 0.0

    def state_dict(self) -> dict[str, Tensor]:
        """Everything as plain tensors: count, shift, offset, scatter, third, fourth, rows."""
        state = {key: getattr(self, key).clone() for key in _KEYS if key != "count"}
        return {"count": torch.tensor(self.count, dtype=torch.int64), **state, "rows": self._rows.tensor()}

    @classmethod
    def from_state_dict(cls, state: Mapping[str, Tensor]) -> "Moments":
        """Statistics from :meth:`state_dict`.

        Raises:
            UserError: If a tensor is missing (``rows`` may be).
        """
        missing = [key for key in _KEYS if key not in state]
        if missing:
            raise UserError(f"moments lack {', '.join(missing)}; needed: {', '.join(_KEYS)}")
        moments = cls(len(state["shift"]), state["shift"].device)
        for key in _KEYS[1:]:
            setattr(moments, key, state[key].detach().to(torch.float64, copy=True))
        moments.count = int(state["count"])
        # Files of version 0.1.0 did not count: their rows are taken to be distinct.
        rows = state["rows"] if "rows" in state else torch.arange(moments.count)
        limit = moments._rows.limit
        moments._rows = DistinctRows(limit, rows[:limit].tolist())
        return moments


class _Eigen:
    """Eigenvalues and eigenvectors, once found, of all copies of the same statistics: what changes takes a new one."""

    found: tuple[Tensor, Tensor] | None = None


def _centred(x: Tensor, *means: Tensor) -> Iterator[Tensor]:
    """Blocks of rows less each mean in turn, float64; a block is overwritten by the next."""
    # Memory that is new for every block would cost more time than the subtraction.
    memory = torch.empty(min(len(x), _BLOCK_ROWS), x.shape[1], dtype=torch.float64, device=means[0].device)
    for block in torch.split(x, _BLOCK_ROWS):
        rows = torch.sub(block.to(memory.device), means[0], out=memory[: len(block)])
        for mean in means[1:]:
            rows.sub_(mean)
        yield rows


def _sum(x: Tensor, mean: Tensor) -> Tensor:
    return torch.stack([rows.sum(dim=0) for rows in _centred(x, mean)]).sum(dim=0)


def _powers(x: Tensor, *means: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Scatter (on and above the diagonal), third and fourth moment of centred rows."""
    dim = x.shape[1]
    width = -(-dim // 4)
    scatter = torch.zeros(dim, dim, dtype=torch.float64, device=means[0].device)
    third, fourth = torch.zeros_like(scatter[0]), torch.zeros_like(scatter[0, 0])
    for rows in _centred(x, *means):
        squared_norms = torch.linalg.vector_norm(rows, dim=1).square()
        third += squared_norms @ rows
        fourth += squared_norms @ squared_norms
        # It is symmetric: what lies below four blocks on the diagonal is left out, three eighths of the products.
        for first in range(0, dim, width):
            panel = rows[:, first : first + width]
            scatter[first : first + width, first:].addmm_(panel.T, rows[:, first:])
    return scatter.triu_(), third, fourth

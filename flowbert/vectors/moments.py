r"""Count, means and covariance of rows that come in chunks, in float64; memory :math:`O(D^2)`."""

import hashlib
import math
from collections.abc import Iterable
from functools import reduce
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from flowbert.errors import UserError
from flowbert.numbers import is_count
from flowbert.threads import threads_for

ROWS_PER_SUM = (
    4096  # rows of a sum, of which sums of consecutive rows are made by pairs
)
_ROWS_PER_PRODUCT = 1024  # what the caches of a CPU hold
_PANELS = 4
ROWS_PER_DIRECTION = 5
"""Distinct rows per direction below which shrinkage is advised (docs/how-it-works.md)."""


class Moments:
    r"""Streaming moments :math:`n`, :math:`\bar x` and :math:`\sum (x - \bar x)(x - \bar x)^T`.

    Rows are summed in blocks of :data:`ROWS_PER_SUM` by their place among all rows, each around its
    mean, and neighbouring blocks are added by pairs, in a tree: the same rows give the same bits,
    in whatever chunks they come, and whatever parts of them are merged. (A product rounds by
    processor and number of threads.) Memory is :math:`O(D^2 \log N)`.

    References:
        Updating Formulae and a Pairwise Algorithm for Computing Sample Variances (Chan et al.,
        1979). http://i.stanford.edu/pub/cstr/reports/cs/tr/79/773/CS-TR-79-773.pdf

    Args:
        dim: Embedding size D.
        start: Place of the first row among all rows, for a part that is merged with others.

    Raises:
        ValueError: If a size or a place is none, or rows have another size.

    Attributes:
        count: Number of rows.

    Example:
        >>> x = torch.randn(100, 4)
        >>> parts = [Moments(4, start=70).update(x[70:]), Moments(4).update(x[:70])]
        >>> whole = Moments(4).update(x)
        >>> bool((Moments.merge(parts).covariance() == whole.covariance()).all())
        True
    """

    def __init__(self, dim: int, start: int = 0) -> None:
        for name, value, least in (("dim", dim, 1), ("start", start, 0)):
            if not is_count(value, least, math.inf):
                raise ValueError(
                    f"{name}: received {value!r}; expected a whole number of at least {least}"
                )
        self.dim = dim
        self.count = 0
        self._spans = [(start, start)]  # places of the rows, first and last + 1
        self._sums: dict[tuple[int, int], _Sums] = {}  # by level and index in the tree
        self._waiting: dict[int, list[tuple[int, Tensor]]] = {}  # of blocks not full
        self._seen: set[bytes] = set()
        self._eigen: tuple[Tensor, Tensor] | None = None
        self._complete: _Sums | None = None

    @classmethod
    def merge(cls, parts: Iterable["Moments"]) -> "Moments":
        """The moments of all rows from those of its parts, in any order, bit for bit.

        Args:
            parts: Moments of consecutive rows each, with their ``start``; they are not changed.

        Raises:
            UserError: If there are none, or two have rows of the same place or another size.
        """
        whole: Moments | None = None
        for part in parts:
            whole = part.copy() if whole is None else whole._join(part)
        if whole is None:
            raise UserError("received none; expected at least one", argument="parts")
        return whole

    def _join(self, part: "Moments") -> "Moments":
        """Add rows of other places."""
        if part.dim != self.dim:
            raise UserError(
                f"received vectors of size {part.dim}; expected {self.dim}",
                argument="parts",
            )
        spans = sorted(
            span for span in [*self._spans, *part._spans] if span[0] < span[1]
        )
        for (_, stop), (start, _) in pairwise(spans):
            if start < stop:
                raise UserError(
                    f"received row {start} twice; expected parts of different rows",
                    argument="parts",
                )
        self._spans = _joined(spans) or self._spans
        self._eigen = self._complete = None
        self.count += part.count
        if len(self._seen) < self.enough:
            self._seen |= part._seen
        for (level, index), sums in part._sums.items():
            self._add(level, index, sums)
        for pieces in part._waiting.values():
            for place, rows in pieces:
                self._wait(place, rows)
        return self

    @property
    def enough(self) -> int:
        """Distinct rows up to which they are counted."""
        return ROWS_PER_DIRECTION * self.dim + 2

    @property
    def distinct(self) -> int:
        """Number of distinct rows, exact below :attr:`enough`."""
        return min(len(self._seen), self.enough)

    def update(self, x: Tensor) -> "Moments":
        """Add rows ``(N, D)`` behind the last ones. Returns self."""
        if x.ndim != 2 or x.shape[1] != self.dim:
            raise ValueError(
                f"x: received the shape {tuple(x.shape)}; expected (N, {self.dim})"
            )
        x = x.detach()
        if x.device.type == "mps":  # it has no float64
            x = x.cpu()
        self._eigen = self._complete = None
        for block in torch.split(x, _ROWS_PER_PRODUCT):
            self._count_distinct(block)
        start, place = self._spans[-1]
        self._spans[-1] = start, place + len(x)
        self.count += len(x)
        first = min(-place % ROWS_PER_SUM, len(x))
        for rows in (x[:first], *torch.split(x[first:], ROWS_PER_SUM)):
            self._wait(place, rows)
            place += len(rows)
        return self

    def _wait(self, place: int, rows: Tensor) -> None:
        """Add rows of one block, which is summed once it is full."""
        if not len(rows):
            return
        index = place // ROWS_PER_SUM
        pieces = [*self._waiting.pop(index, []), (place, rows)]
        if sum(len(piece) for _, piece in pieces) == ROWS_PER_SUM:
            self._add(0, index, _Sums.of(_in_order(pieces)))
        else:
            pieces[-1] = place, rows.clone()  # not what the caller may change
            self._waiting[index] = pieces

    def _add(self, level: int, index: int, sums: "_Sums") -> None:
        """Add a node to the tree; two neighbours of a pair become one."""
        while (level, index ^ 1) in self._sums:
            other = self._sums.pop((level, index ^ 1))
            sums = other.followed_by(sums) if index % 2 else sums.followed_by(other)
            level, index = level + 1, index // 2
        self._sums[level, index] = sums

    def copy(self) -> "Moments":
        """The same moments, to which rows can be added."""
        other = Moments(self.dim)
        vars(other).update(vars(self))
        other._spans, other._sums = list(self._spans), dict(self._sums)
        other._waiting = {index: list(each) for index, each in self._waiting.items()}
        other._seen = set(self._seen)
        return other

    def _all(self) -> "_Sums":
        """The sums of all rows.

        Raises:
            UserError: If there are none, or rows before others are missing.
        """
        if self._complete is None:
            if self._spans != [(0, self.count)] or not self.count:
                spans = [f"{a} to {b - 1}" for a, b in self._spans if a < b] or ["none"]
                raise UserError(
                    f"received the rows {', '.join(spans)}; expected all from 0 on",
                    argument="parts",
                )
            nodes = dict(self._sums)
            for index, pieces in self._waiting.items():  # the last block, if any
                nodes[0, index] = _Sums.of(_in_order(pieces))
            places = sorted(nodes, key=lambda node: node[1] << node[0])
            self._complete = reduce(
                _Sums.followed_by, (nodes[place] for place in places)
            )
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
        return self._all().mean.cpu()

    @property
    def mean_direction(self) -> Tensor:
        """Direction of the mean of the unit-length rows, ``(D,)``, float64; zero without one."""
        return torch.nn.functional.normalize(self._all().unit_mean.cpu(), dim=0)

    def covariance(self) -> Tensor:
        """Covariance ``(D, D)``, divisor N - 1; zero for a single row."""
        upper = self._all().scatter.cpu().triu()
        return (upper + upper.triu(1).T) / max(self.count - 1, 1)

    def eigen(self) -> tuple[Tensor, Tensor]:
        """Eigenvalues ``(D,)``, falling, and eigenvectors ``(D, D)`` of the covariance.

        The largest entry of each eigenvector is positive, so that it is the same on every machine.
        """
        if self._eigen is None:
            with threads_for(self.dim * self.dim):
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


class _Sums(NamedTuple):
    r"""Number, means and :math:`\sum (x - \bar x)(x - \bar x)^T` of consecutive rows; immutable.

    Args:
        number: Number of rows.
        mean: ``(D,)``, float64.
        unit_mean: Mean of the rows at length 1, ``(D,)``, float64; a row of zeros stays.
        scatter: ``(D, D)``, float64, of which the upper triangle counts.
    """

    number: int
    mean: Tensor
    unit_mean: Tensor
    scatter: Tensor

    @classmethod
    def of(cls, rows: Tensor) -> "_Sums":
        """Of rows ``(n, D)``."""
        number, dim = rows.shape
        exact = torch.promote_types(rows.dtype, torch.float32)
        with threads_for(dim * dim // _PANELS):
            # Near the mean is enough: what is left is subtracted from the sums.
            shift = rows.mean(dim=0, dtype=exact).double()
            total, unit_total = shift.new_zeros(dim), shift.new_zeros(dim)
            scatter = shift.new_zeros(dim, dim)
            for block in torch.split(rows, _ROWS_PER_PRODUCT):
                lengths = torch.linalg.vector_norm(block, dim=1, dtype=exact)
                shares = torch.where(lengths > 0, 1 / lengths.double(), 0.0)
                centred = block - shift
                total += centred.sum(dim=0)
                unit_total += shares @ centred + shares.sum() * shift
                _add_products(scatter, centred)
            offset = total / number
            scatter.addr_(offset, offset, alpha=-number)
        return cls(number, shift + offset, unit_total / number, scatter)

    def followed_by(self, other: "_Sums") -> "_Sums":
        """Of both."""
        number = self.number + other.number
        share = other.number / number
        offset = other.mean.to(self.mean.device) - self.mean
        unit_offset = other.unit_mean.to(self.mean.device) - self.unit_mean
        scatter = self.scatter + other.scatter.to(self.scatter.device)
        scatter.addr_(offset, offset * (self.number * share))
        mean, unit_mean = (
            self.mean + offset * share,
            self.unit_mean + unit_offset * share,
        )
        return _Sums(number, mean, unit_mean, scatter)


def _in_order(pieces: list[tuple[int, Tensor]]) -> Tensor:
    """Rows of pieces by their places."""
    rows = [rows for _, rows in sorted(pieces, key=lambda piece: piece[0])]
    return (
        rows[0] if len(rows) == 1 else torch.cat([x.to(rows[0].device) for x in rows])
    )


def _joined(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sorted spans, neighbours as one."""
    joined: list[tuple[int, int]] = []
    for start, stop in spans:
        if joined and joined[-1][1] == start:
            start = joined.pop()[0]
        joined.append((start, stop))
    return joined


def _add_products(total: Tensor, rows: Tensor) -> None:
    """Add the upper triangle of ``rows.T @ rows`` in panels: three eighths fewer products."""
    width = -(-rows.shape[1] // _PANELS)
    for start in range(0, rows.shape[1], width):
        panel = rows[:, start : start + width]
        total[start : start + width, start:].addmm_(panel.T, rows[:, start:])

r"""Count, means and covariance of rows that come in chunks, in float64; memory :math:`O(D^2)`."""

import hashlib
from collections.abc import Iterable
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from flowbert.arrays import to_tensor
from flowbert.errors import UserError
from flowbert.io import load_tensors, save_tensors
from flowbert.threads import threads_for

_KIND = "moments"

ROWS_PER_BLOCK = 4096
"""Number of rows in a block, whose mean is subtracted before its rows are summed."""
_ROWS_PER_PRODUCT = 1024  # what the caches of a CPU hold
_PANELS = 4
ROWS_PER_DIRECTION = 5
"""Distinct rows per direction below which a warning recommends shrinkage."""


class Moments:
    r"""Streaming moments :math:`n`, :math:`\bar x` and :math:`\sum (x - \bar x)(x - \bar x)^T`.

    Blocks of :data:`ROWS_PER_BLOCK` rows are summed in order, after their mean is subtracted. The
    result does not depend on the chunks in which rows are added, bit for bit. Merged moments of
    parts equal those of all rows up to rounding. Memory is :math:`O(D^2)`.

    References:
        Updating Formulae and a Pairwise Algorithm for Computing Sample Variances (Chan et al.,
        1979). http://i.stanford.edu/pub/cstr/reports/cs/tr/79/773/CS-TR-79-773.pdf

    Args:
        dim: Embedding size D.

    Raises:
        ValueError: If rows have another size.

    Attributes:
        count: Number of rows.
        enough: Number of distinct rows at which counting stops.

    Example:
        >>> x = torch.randn(100, 4)
        >>> merged = Moments.merge([Moments(4).update(x[:70]), Moments(4).update(x[70:])])
        >>> torch.allclose(merged.covariance(), Moments(4).update(x).covariance())
        True
    """

    def __init__(self, dim: int) -> None:
        self.dim = dim
        self.enough = ROWS_PER_DIRECTION * dim + 2
        self.count = 0
        self._sums: _Sums | None = None  # of the blocks that are full
        self._rest: list[Tensor] = []  # rows of the last block
        self._seen: set[bytes] = set()
        self._eigen: tuple[Tensor, Tensor] | None = None
        self._complete: _Sums | None = None

    @classmethod
    def merge(cls, parts: Iterable["Moments"]) -> "Moments":
        """Moments of all rows, from moments of parts of them.

        Args:
            parts: Moments of different rows, at least one; they are not changed.
        """
        first, *others = parts
        whole = cls(first.dim)
        for part in (first, *others):
            whole.count += part.count
            if len(whole._seen) < whole.enough:
                whole._seen |= part._seen
            if part.count:
                whole._add(part._all())
        return whole

    def save(self, path: str | Path) -> None:
        """Write a safetensors file without the rows, to which later rows can be added.

        Raises:
            UserError: If there are no rows.
        """
        tensors = self._all()._asdict()
        digests = sorted(int.from_bytes(seen, signed=True) for seen in self._seen)
        tensors["seen"] = torch.tensor(digests)
        save_tensors(path, _KIND, tensors, number=tensors.pop("number"))

    @classmethod
    def load(cls, path: str | Path) -> "Moments":
        """Read a file of :meth:`save`.

        Raises:
            UserError: If the file is missing or damaged, or contains something else.
        """
        tensors, metadata = load_tensors(path, _KIND)
        digests = tensors.pop("seen").tolist()
        moments = cls(len(tensors["mean"]))
        moments.count = metadata["number"]
        moments._sums = _Sums(metadata["number"], **tensors)
        moments._seen = {seen.to_bytes(8, signed=True) for seen in digests}
        return moments

    @property
    def distinct(self) -> int:
        """Number of distinct rows, exact below :attr:`enough`."""
        return min(len(self._seen), self.enough)

    def update(self, x: Any) -> "Moments":
        """Add rows ``(N, D)``, an array or a tensor, after the previous rows. Returns self."""
        x = to_tensor(x)
        if x.ndim != 2 or x.shape[1] != self.dim:
            raise ValueError(
                f"x: received the shape {tuple(x.shape)}; expected (N, {self.dim})"
            )
        if x.device.type == "mps":  # it has no float64
            x = x.cpu()
        x = x.to(torch.promote_types(x.dtype, torch.float32))
        self._eigen = self._complete = None
        self.count += len(x)
        for block in torch.split(x, _ROWS_PER_PRODUCT):
            if len(self._seen) < self.enough:
                # Equal rows of another dtype must be equal here, too, and -0.0 equals 0.0.
                for row in (block.cpu().to(torch.float64) + 0.0).numpy():
                    digest = hashlib.blake2b(row.tobytes(), digest_size=8).digest()
                    self._seen.add(digest)
        missing = ROWS_PER_BLOCK - sum(map(len, self._rest))
        for rows in (x[:missing], *torch.split(x[missing:], ROWS_PER_BLOCK)):
            if sum(map(len, self._rest)) + len(rows) == ROWS_PER_BLOCK:
                self._add(_Sums.of([*self._rest, rows]))
                self._rest = []
            elif len(rows):
                self._rest.append(rows.clone())  # the caller may change its rows
        return self

    def _add(self, sums: "_Sums") -> None:
        """Add the sums of further rows."""
        self._sums = sums if self._sums is None else self._sums.followed_by(sums)

    def _all(self) -> "_Sums":
        """The sums of all rows.

        Raises:
            UserError: If there are no rows.
        """
        if not self.count:
            raise UserError("received none; expected at least one", argument="rows")
        if self._complete is None:
            found = [] if self._sums is None else [self._sums]
            if self._rest:
                found.append(_Sums.of(self._rest))
            self._complete = reduce(_Sums.followed_by, found)
        return self._complete

    def update_blocks(self, blocks: Iterable[Any]) -> "Moments":
        """Add rows block by block. Returns self."""
        for block in blocks:
            self.update(block)
        return self

    @property
    def mean(self) -> Tensor:
        """Mean of the rows, ``(D,)``, float64."""
        return self._all().mean.cpu()

    @property
    def mean_direction(self) -> Tensor:
        """Direction of the mean of the unit-length rows, ``(D,)``, float64; 0 if the mean is 0."""
        return torch.nn.functional.normalize(self._all().unit_mean.cpu(), dim=0)

    def covariance(self) -> Tensor:
        """Covariance ``(D, D)``, divisor N - 1; zero for a single row."""
        upper = self._all().scatter.cpu().triu()
        return (upper + upper.triu(1).T) / max(self.count - 1, 1)

    def eigen(self) -> tuple[Tensor, Tensor]:
        """Eigenvalues ``(D,)``, in decreasing order, and eigenvectors ``(D, D)`` of the covariance.

        The largest entry of each eigenvector is positive, so that all machines agree on the sign.
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
        unit_mean: Mean of the rows scaled to length 1, ``(D,)``, float64; a row of zeros stays.
        scatter: ``(D, D)``, float64; only the upper triangle is used.
    """

    number: int
    mean: Tensor
    unit_mean: Tensor
    scatter: Tensor

    @classmethod
    def of(cls, pieces: list[Tensor]) -> "_Sums":
        """Sum pieces of rows ``(n, D)``, on the device of the first piece."""
        rows = pieces[0]
        if len(pieces) > 1:
            rows = torch.cat([piece.to(rows.device) for piece in pieces])
        number, dim = rows.shape
        width = -(-dim // _PANELS)
        with threads_for(dim * dim // _PANELS):
            # Near the mean is enough: what is left is subtracted from the sums.
            shift = rows.mean(dim=0).double()
            total, unit_total = shift.new_zeros(dim), shift.new_zeros(dim)
            scatter = shift.new_zeros(dim, dim)
            for block in torch.split(rows, _ROWS_PER_PRODUCT):
                lengths = torch.linalg.vector_norm(block, dim=1)
                shares = torch.where(lengths > 0, 1 / lengths.double(), 0.0)
                centred = block - shift
                total += centred.sum(dim=0)
                unit_total += shares @ centred + shares.sum() * shift
                # The upper triangle in panels: three eighths fewer products.
                for start in range(0, dim, width):
                    panel = centred[:, start : start + width].T
                    part = scatter[start : start + width, start:]
                    part.addmm_(panel, centred[:, start:])
            offset = total / number
            scatter.addr_(offset, offset, alpha=-number)
        return cls(number, shift + offset, unit_total / number, scatter)

    def followed_by(self, other: "_Sums") -> "_Sums":
        """The sums of both parts."""
        number = self.number + other.number
        share = other.number / number
        offset = other.mean.to(self.mean.device) - self.mean
        unit_offset = other.unit_mean.to(self.mean.device) - self.unit_mean
        scatter = self.scatter + other.scatter.to(self.scatter.device)
        scatter.addr_(offset, offset * (self.number * share))
        mean = self.mean + offset * share
        return _Sums(number, mean, self.unit_mean + unit_offset * share, scatter)

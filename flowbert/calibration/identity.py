"""The embeddings as they are: the row every method is compared with."""

from collections.abc import Mapping
from typing import Self

import torch
from torch import Tensor

from flowbert.calibration.base import Calibration, NotFittedError, Rows, checked_rows
from flowbert.errors import UserError


class Identity(Calibration, method="raw"):
    """No calibration, :math:`y = x`; fitting only notes the embedding size.

    Shapes:
        x, transformed: ``(N, D)``.  N: sentences, D: embedding size.

    Example:
        >>> Identity().transform(torch.tensor([[1.0, 2.0]])).tolist()
        [[1.0, 2.0]]
    """

    def __init__(self) -> None:
        self._dim: int | None = None

    @property
    def dim(self) -> int | None:
        """Embedding size D of the rows seen so far; None before the first ones."""
        return self._dim

    @property
    def fitted(self) -> bool:
        """Always true: there is nothing to fit."""
        return True

    def reset(self) -> Self:
        """Forget the embedding size. Returns self."""
        self._dim = None
        return self

    def partial_fit(self, x: Rows) -> Self:
        """Note the embedding size. Returns self."""
        self._dim = checked_rows(x, self._dim).shape[1]
        return self

    def merge(self, other: Calibration) -> Self:
        """Check that ``other`` is an identity of the same size. Returns self."""
        if not isinstance(other, Identity):
            raise UserError(f"cannot merge a {type(other).__name__}; allowed: an Identity")
        if None not in (self._dim, other.dim) and self._dim != other.dim:
            raise UserError(f"an Identity of {other.dim} dimensions cannot be merged into one of {self._dim}")
        self._dim = self._dim or other.dim
        return self

    def affine(self) -> tuple[Tensor, Tensor]:
        """Weight I of shape ``(D, D)`` and bias 0 of shape ``(D,)``, float64.

        Raises:
            NotFittedError: If the embedding size is not known yet.
        """
        if self._dim is None:
            raise NotFittedError("Identity does not know the embedding size yet: call fit or partial_fit")
        return torch.eye(self._dim, dtype=torch.float64), torch.zeros(self._dim, dtype=torch.float64)

    def transform(self, x: Rows, *, dtype: torch.dtype = torch.float32) -> Tensor:
        """The rows themselves, in ``dtype``."""
        return checked_rows(x, self._dim).to(dtype)

    def inverse_transform(self, y: Rows, *, dtype: torch.dtype = torch.float32) -> Tensor:
        """The rows themselves, in ``dtype``."""
        return self.transform(y, dtype=dtype)

    def state_dict(self) -> dict[str, Tensor]:
        """The embedding size, 0 while unknown."""
        return {"dim": torch.tensor(self._dim or 0, dtype=torch.int64)}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> Self:
        """Take over a :meth:`state_dict`. Returns self."""
        self._dim = int(state["dim"]) or None if "dim" in state else None
        return self

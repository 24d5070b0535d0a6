r"""Calibrations that are one affine map :math:`y = (x - \mu) W`, computed from streamed moments."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Self

import torch
from torch import Tensor

from flowbert.calibration.base import Calibration, NotFittedError, Rows, checked_rows
from flowbert.calibration.moments import Moments
from flowbert.errors import UserError

_BLOCK_ROWS = 16384


@dataclass(frozen=True)
class AffineMap:
    r"""The map :math:`y = (x - \mu) W` with its (pseudo-)inverse :math:`x = y W^+ + \mu`, float64.

    Attributes:
        center: :math:`\mu` of shape ``(D,)``.
        weight: W of shape ``(D, k)``.
        inverse: :math:`W^+` of shape ``(k, D)``.
    """

    center: Tensor
    weight: Tensor
    inverse: Tensor


class AffineCalibration(Calibration):
    """Base of the affine methods: a subclass turns :class:`Moments` into an :class:`AffineMap`, nothing more.

    The map is applied in float64 on centred rows and rounded once at the end: in float32, ``x W - mu W`` would lose
    the digits that the mean and the map have in common, which moves a Spearman figure by more than 1e-4.
    """

    def __init__(self) -> None:
        self.moments: Moments | None = None
        self._map: AffineMap | None = None

    @abstractmethod
    def solve(self, moments: Moments) -> AffineMap:
        """The map for these statistics, on the CPU."""

    @property
    def dim(self) -> int | None:
        """Embedding size D of the rows seen so far; None before the first ones."""
        return None if self.moments is None else self.moments.dim

    @property
    def fitted(self) -> bool:
        """Whether at least one row has been seen."""
        return self.moments is not None and self.moments.count > 0

    def reset(self) -> Self:
        """Forget all data. Returns self."""
        self.moments = self._map = None
        return self

    def fit(self, x: Rows) -> Self:
        """Fit on these rows alone and compute the map at once, so that its warnings appear here. Returns self."""
        super().fit(x).affine_map()
        return self

    def partial_fit(self, x: Rows) -> Self:
        """Add rows (possibly none); the map is computed anew at the next use. Returns self."""
        rows = checked_rows(x, self.dim)
        if self.moments is None:
            # Float64 does not exist on Apple's GPU: there the statistics live on the CPU.
            self.moments = Moments(rows.shape[1], "cpu" if rows.device.type == "mps" else rows.device)
        self.moments.update(rows)
        self._map = None
        return self

    def merge(self, other: Calibration) -> Self:
        """Add the data that ``other`` has seen; its arguments play no role. Returns self.

        Raises:
            UserError: If ``other`` is of another class or of another embedding size.
        """
        if not isinstance(other, AffineCalibration) or type(other) is not type(self):
            raise UserError(f"cannot merge a {type(other).__name__}; allowed: a {type(self).__name__}")
        if other.moments is not None:
            if self.moments is None:
                self.moments = Moments(other.moments.dim, other.moments.shift.device)
            self.moments.merge(other.moments)
            self._map = None
        return self

    def affine_map(self) -> AffineMap:
        """The fitted map, computed on first use and kept until more data comes.

        Raises:
            NotFittedError: If no row has been seen.
        """
        if self.moments is None or self.moments.count == 0:
            raise NotFittedError(f"{type(self).__name__} is not fitted: call fit or partial_fit with at least 1 row")
        if self._map is None:
            self._map = self.solve(self.moments.to("cpu"))
        return self._map

    def affine(self) -> tuple[Tensor, Tensor]:
        """Weight W of shape ``(D, k)`` and bias b of shape ``(k,)``, float64, with ``transform(x) = x W + b``."""
        fitted = self.affine_map()
        return fitted.weight.clone(), -(fitted.center @ fitted.weight)

    def transform(self, x: Rows, *, dtype: torch.dtype = torch.float32) -> Tensor:
        r"""Map rows ``(N, D)`` to :math:`(x - \mu) W` of shape ``(N, k)``, on the device of ``x``."""
        fitted = self.affine_map()
        rows = checked_rows(x, self.dim)
        device = _float64_device(rows)
        center, weight = fitted.center.to(device), fitted.weight.to(device)
        blocks = torch.split(rows, _BLOCK_ROWS)
        mapped = [((b.to(device, torch.float64) - center) @ weight).to(rows.device, dtype) for b in blocks]
        return torch.cat(mapped)

    def inverse_transform(self, y: Rows, *, dtype: torch.dtype = torch.float32) -> Tensor:
        r"""Map rows ``(N, k)`` to :math:`y W^+ + \mu` of shape ``(N, D)``, on the device of ``y``."""
        fitted = self.affine_map()
        rows = checked_rows(y, fitted.weight.shape[1])
        device = _float64_device(rows)
        center, inverse = fitted.center.to(device), fitted.inverse.to(device)
        blocks = torch.split(rows, _BLOCK_ROWS)
        mapped = [(b.to(device, torch.float64) @ inverse + center).to(rows.device, dtype) for b in blocks]
        return torch.cat(mapped)

    def state_dict(self) -> dict[str, Tensor]:
        """The moments (so that fitting can go on) and the map (so that it is the same on every machine)."""
        if self.moments is None or self.moments.count == 0:
            return {}
        fitted = self.affine_map()
        state = {f"moments.{key}": value for key, value in self.moments.state_dict().items()}
        return state | {f"map.{key}": value.clone() for key, value in vars(fitted).items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> Self:
        """Take over a :meth:`state_dict`; an empty one means not fitted. Returns self.

        Raises:
            UserError: If a tensor is missing or has the wrong shape.
        """
        self.reset()
        if not state:
            return self
        names = [f"map.{field.name}" for field in fields(AffineMap)]
        missing = [name for name in names if name not in state]
        if missing:
            raise UserError(f"calibration state lacks {', '.join(missing)}; needed: {', '.join(names)} and moments")
        prefix = "moments."
        self.moments = Moments.from_state_dict(
            {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}
        )
        self._map = AffineMap(*(state[name].detach().to("cpu", torch.float64, copy=True) for name in names))
        return self


def _float64_device(rows: Tensor) -> torch.device:
    return torch.device("cpu") if rows.device.type == "mps" else rows.device

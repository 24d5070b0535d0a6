r"""The contract of every closed-form calibration: an affine map :math:`y = (x - \mu) W` of streamed moments."""

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from flowbert import __version__
from flowbert.calibration.moments import Moments
from flowbert.errors import UserError, choices
from flowbert.io.container import read_container, write_container

Rows = Tensor | NDArray[Any]
Allowed = tuple[Callable[[Any], bool], str]
"""Whether a constructor's argument holds, and what is allowed, in words."""

_FORMAT = "flowbert-calibration-2"
_BLOCK_ROWS = 16384
_METHODS: dict[str, type["Calibration"]] = {}


def _size(value: Any) -> bool:
    return value is None or (isinstance(value, int) and value >= 1)


def number(low: float, high: float) -> Callable[[Any], bool]:
    """Whether a value is a number from ``low`` to ``high``, for :attr:`Calibration.allowed`."""
    return lambda value: isinstance(value, int | float) and math.isfinite(value) and low <= value <= high


_ALLOWED: Mapping[str, Allowed] = {
    "n_components": (_size, "a whole number of at least 1, or none for all"),
    "n_directions": (_size, "a whole number of at least 1, or none for the default"),
    "shrinkage": (lambda value: value == "ledoit-wolf" or number(0, 1)(value), "a number in [0, 1] or 'ledoit-wolf'"),
    "exponent": (number(-1, 0), "a number in [-1, 0] (-0.5 whitens, 0 only rotates)"),
    "rank_tolerance": (number(0, math.nextafter(1, 0)), "a number in [0, 1)"),
    "penalty": (number(0, math.inf), "a number of at least 0"),
    "standardize": (lambda value: isinstance(value, bool), "true or false"),
    "center": (lambda value: isinstance(value, bool), "true or false"),
}
"""What the arguments that several calibrations have may be: the same name means the same in all of them."""


class NotFittedError(RuntimeError):
    """The calibration has seen no data yet."""


def methods() -> dict[str, type["Calibration"]]:
    """Every known method by its name, in order of definition."""
    return {name: known for name, known in _METHODS.items() if known.fits}


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


@dataclass(eq=False)
class Calibration(ABC):
    """A map of sentence embeddings that is fitted on unlabelled embeddings and then frozen.

    A method is one file with one subclass, ``class Name(Calibration, method="name")``, that turns :class:`Moments` into
    an :class:`AffineMap`, and one import line in ``flowbert/calibration/__init__.py``. The class keyword registers the
    name for :func:`flowbert.methods.make_calibration` and for :meth:`load`. The arguments are plain JSON values: the
    fields of a dataclass, checked when it is made.

    The map is applied in float64 on centred rows and rounded once at the end: in float32, ``x W - mu W`` would lose
    the digits that the mean and the map have in common, which moves a Spearman figure by more than 1e-4.

    Shapes:
        x: ``(N, D)``, torch or numpy; transformed: ``(N, k)``, on the device of ``x``.
        N: sentences, D: embedding size, k: size after the map.

    Raises:
        UserError: If an argument is out of range.
    """

    method: ClassVar[str] = ""
    size_option: ClassVar[str | None] = None
    """Constructor argument that a number after the method's name sets, as in ``whitening-128``."""
    allowed: ClassVar[Mapping[str, Allowed]] = {}
    """What arguments may be that no other calibration has."""
    fits: ClassVar[bool] = True
    """Whether it learns from rows, and so is a method; else it is only loaded."""
    to_be_fitted: ClassVar[str] = "call fit or partial_fit with at least 1 row"

    def __init_subclass__(cls, method: str | None = None, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if method is not None:
            if method in _METHODS and _METHODS[method].__qualname__ != cls.__qualname__:
                raise ValueError(f"method {method!r} is already taken by {_METHODS[method].__qualname__}")
            cls.method = method
            _METHODS[method] = cls

    def __post_init__(self) -> None:
        for name, value in self.config.items():
            holds, allowed = {**_ALLOWED, **self.allowed}[name]
            if not holds(value):
                raise UserError(f"{name}: received {value!r}; allowed: {allowed}")
        self.reset()

    @abstractmethod
    def solve(self, moments: Moments) -> AffineMap:
        """The map for these statistics, on the CPU."""

    @property
    def config(self) -> dict[str, Any]:
        """Constructor arguments as JSON values."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    @property
    def dim(self) -> int | None:
        """Embedding size D of the rows seen so far; None before the first ones."""
        return None if self.moments is None else self.moments.dim

    def output_dim(self, dim: int) -> int:
        """Size k of the mapped rows, given the size D of the rows.

        Raises:
            UserError: If an argument does not fit D; nothing needs to be fitted to find that out.
        """
        return dim

    @property
    def fitted(self) -> bool:
        """Whether :meth:`transform` can be called."""
        return self.moments is not None and self.moments.count > 0

    @property
    def flaw(self) -> str | None:
        """Why the figures of the fitted map would mean nothing, with N, D and the remedy, in one line; else None."""
        return None

    def reset(self) -> Self:
        """Forget all data. Returns self."""
        self.moments: Moments | None = None
        self.forget_map()
        return self

    def forget_map(self) -> None:
        """Forget what was made of the data seen: more has come."""
        self._map: AffineMap | None = None

    def fit(self, x: Rows) -> Self:
        """Fit on these rows alone and compute the map at once, so that its warnings appear here. Returns self.

        Raises:
            ValueError: If ``x`` is not 2-D.
            UserError: If ``x`` has no rows, or holds NaN or infinity.
        """
        rows = checked_rows(x)
        if len(rows) == 0:
            raise UserError("cannot fit on 0 rows; allowed: at least 1")
        self.reset().partial_fit(rows)
        if self.fitted:
            self.affine_map()
        return self

    def partial_fit(self, x: Rows) -> Self:
        """Add rows (possibly none); any chunking gives what one :meth:`fit` gives. Returns self."""
        rows = checked_rows(x, self.dim)
        if self.moments is None:
            self.moments = Moments(rows.shape[1], _float64_device(rows))
        self.moments.update(rows)
        self.forget_map()
        return self

    def merge(self, other: "Calibration") -> Self:
        """Add the data that ``other`` has seen; its arguments play no role. Returns self.

        Raises:
            TypeError: If ``other`` is of another class.
            ValueError: If it is of another embedding size.
        """
        if type(other) is not type(self):
            raise TypeError(f"cannot merge a {type(other).__name__}; allowed: a {type(self).__name__}")
        return self if other.moments is None else self.add_moments(other.moments)

    def add_moments(self, moments: Moments) -> Self:
        """Add rows of which the moments are known. Returns self.

        Raises:
            ValueError: If they are of another embedding size.
        """
        if self.moments is None:
            self.moments = Moments(moments.dim, moments.shift.device)
        self.moments.merge(moments)
        self.forget_map()
        return self

    def affine_map(self) -> AffineMap:
        """The fitted map, computed on first use and kept until more data comes.

        Raises:
            NotFittedError: If it cannot be computed yet.
        """
        if not self.fitted:
            raise NotFittedError(f"{type(self).__name__} is not fitted: {self.to_be_fitted}")
        if self._map is None:
            self._map = self.solve(cast(Moments, self.moments).to("cpu"))
        return self._map

    def affine(self) -> tuple[Tensor, Tensor]:
        """Weight W of shape ``(D, k)`` and bias b of shape ``(k,)``, float64, with ``transform(x) = x W + b``."""
        fitted = self.affine_map()
        return fitted.weight.clone(), -(fitted.center @ fitted.weight)

    def transform(self, x: Rows, *, dtype: torch.dtype = torch.float32) -> Tensor:
        r"""Map rows ``(N, D)`` to :math:`(x - \mu) W` of shape ``(N, k)``, on the device of ``x``."""
        fitted = self.affine_map()
        rows = checked_rows(x, self.dim)
        return _in_float64(lambda b, center, W: (b - center) @ W, rows, dtype, fitted.center, fitted.weight)

    def inverse_transform(self, y: Rows, *, dtype: torch.dtype = torch.float32) -> Tensor:
        r"""Map rows ``(N, k)`` to :math:`y W^+ + \mu` of shape ``(N, D)``, on the device of ``y``."""
        fitted = self.affine_map()
        rows = checked_rows(y, fitted.weight.shape[1])
        return _in_float64(lambda b, center, W: b @ W + center, rows, dtype, fitted.center, fitted.inverse)

    def state_dict(self) -> dict[str, Tensor]:
        """The moments (so that fitting can go on) and the map (so that it is the same on every machine)."""
        if not self.fitted:
            return {}
        moments = {} if self.moments is None else self.moments.state_dict()
        state = {f"moments.{key}": value for key, value in moments.items()}
        return state | {f"map.{key}": value.clone() for key, value in vars(self.affine_map()).items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> Self:
        """Take over a :meth:`state_dict`; an empty one means not fitted. Returns self.

        Raises:
            UserError: If a tensor is missing.
        """
        self.reset()
        if state:
            names = [f"map.{field.name}" for field in fields(AffineMap)]
            self._map = AffineMap(*(needed(state, name) for name in names))
            if self.fits:
                found = [key for key in state if key.startswith("moments.")]
                self.moments = Moments.from_state_dict({key.removeprefix("moments."): state[key] for key in found})
        return self

    def save(self, path: str | Path, metadata: Mapping[str, Any] | None = None) -> Path:
        """Write one safetensors file with the class, arguments and version as JSON metadata. Returns the path.

        Args:
            path: The file.
            metadata: Further JSON values to keep beside it.
        """
        own = {"class": type(self).__name__, "config": self.config, "flowbert": __version__}
        return write_container(path, _FORMAT, self.state_dict(), {**(metadata or {}), **own})

    @classmethod
    def load(cls, path: str | Path) -> "Calibration":
        """Read a file of :meth:`save`; the result has the class that was saved.

        Raises:
            UserError: If the file is missing, damaged, not a calibration, or of another class than this one.
        """
        return cls.load_with_metadata(path)[0]

    @classmethod
    def load_with_metadata(cls, path: str | Path) -> tuple["Calibration", dict[str, Any]]:
        """The same, and the JSON values beside it.

        Raises:
            UserError: As :meth:`load` does.
        """
        metadata, state = read_container(path, _FORMAT, "calibration", "fit and save it again")
        classes = {known.__name__: known for known in _METHODS.values() if issubclass(known, cls)}
        name = metadata["class"]
        if name not in classes:
            raise UserError(f"{path}: holds a {name}; {choices(classes, name)}")
        return classes[name](**metadata["config"]).load_state_dict(state), metadata


def needed(state: Mapping[str, Tensor], name: str) -> Tensor:
    """A copy of a tensor of a saved state, float64 on the CPU; a UserError if it is missing."""
    if name not in state:
        raise UserError(f"calibration state lacks {name}; allowed: a file as written here")
    return state[name].detach().to("cpu", torch.float64, copy=True)


def at_most(dim: int, name: str, wanted: int | None) -> int:
    """Directions that an argument asks for, all of them if it does not; a UserError if there are not so many."""
    if wanted is not None and wanted > dim:
        raise UserError(f"{name}: received {wanted}; allowed: 1 to {dim}, the size of the embeddings")
    return wanted or dim


def checked_rows(x: Rows, dim: int | None = None) -> Tensor:
    """Rows as a tensor after the checks that every calibration makes.

    Args:
        x: Rows of shape ``(N, D)``, torch or numpy, of any real dtype.
        dim: The D that is needed, if already known.

    Raises:
        ValueError: If ``x`` is not 2-D, or has another width than ``dim``.
        UserError: If it holds NaN or infinity.
    """
    rows = x if isinstance(x, Tensor) else torch.tensor(np.asarray(x))
    if rows.ndim != 2 or rows.shape[1] == 0 or rows.is_complex():
        raise ValueError(f"embeddings have the shape {tuple(rows.shape)} ({rows.dtype}); allowed: real (N, D), D >= 1")
    if dim is not None and rows.shape[1] != dim:
        raise ValueError(f"embeddings have {rows.shape[1]} dimensions; allowed: {dim}, as fitted")
    if bool(torch.isfinite(rows.sum())):  # one pass and no copy; the sum of finite values may overflow
        return rows
    bad = ~torch.isfinite(rows)
    if bool(bad.any()):
        bad_rows = bad.any(dim=1).nonzero().flatten()
        raise UserError(
            f"embeddings hold {int(bad.sum())} NaN or infinite values in {len(bad_rows)} of {len(rows)} rows "
            f"and {int(bad.any(dim=0).sum())} of {rows.shape[1]} columns (first row: {int(bad_rows[0])}); "
            "allowed: finite values"
        )
    return rows


def _in_float64(apply: Callable[..., Tensor], rows: Tensor, dtype: torch.dtype, *constants: Tensor) -> Tensor:
    """Blocks of rows through ``apply(block, *constants)`` in float64, rounded once."""
    device = _float64_device(rows)
    there = [constant.to(device) for constant in constants]
    blocks = torch.split(rows, _BLOCK_ROWS)
    return torch.cat([apply(b.to(device, torch.float64), *there).to(rows.device, dtype) for b in blocks])


def _float64_device(rows: Tensor) -> torch.device:
    # Float64 does not exist on Apple's GPU: there the arithmetic is done on the CPU.
    return torch.device("cpu") if rows.device.type == "mps" else rows.device

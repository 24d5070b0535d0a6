"""The contract of every closed-form calibration: fit, partial_fit, merge, transform, inverse_transform, save, load."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from flowbert import __version__
from flowbert.errors import UserError, choices
from flowbert.io.container import read_container, write_container

Rows = Tensor | NDArray[Any]
_FORMAT = "flowbert-calibration-2"
_METHODS: dict[str, type["Calibration"]] = {}


class NotFittedError(RuntimeError):
    """The calibration has seen no data yet."""


def methods() -> dict[str, type["Calibration"]]:
    """Every known method by its name, in order of definition."""
    return dict(_METHODS)


class Calibration(ABC):
    """A map of sentence embeddings that is fitted on unlabelled embeddings and then frozen.

    A method is one file with one subclass, ``class Name(Calibration, method="name")``, and one import line in
    ``flowbert/calibration/__init__.py``. The class keyword registers the name for
    :func:`flowbert.calibration.make_calibration` and for :meth:`load`. Constructors take plain JSON values, each kept
    in an attribute of the same name.

    Shapes:
        x: ``(N, D)``, torch or numpy; transformed: ``(N, k)``, on the device of ``x``.
        N: sentences, D: embedding size, k: size after the map.
    """

    method: ClassVar[str] = ""
    size_option: ClassVar[str | None] = None
    """Constructor argument that a number after the method's name sets, as in ``whitening-128``."""

    def __init_subclass__(cls, method: str | None = None, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if method is not None:
            if method in _METHODS and _METHODS[method].__qualname__ != cls.__qualname__:
                raise ValueError(f"method {method!r} is already taken by {_METHODS[method].__qualname__}")
            cls.method = method
            _METHODS[method] = cls

    @property
    @abstractmethod
    def dim(self) -> int | None:
        """Embedding size D the map was fitted for; None before the first rows."""

    def output_dim(self, dim: int) -> int:
        """Size k of the mapped rows, given the size D of the rows.

        Raises:
            UserError: If an argument does not fit D; nothing needs to be fitted to find that out.
        """
        return dim

    @property
    @abstractmethod
    def fitted(self) -> bool:
        """Whether :meth:`transform` can be called."""

    @property
    def flaw(self) -> str | None:
        """Why the figures of the fitted map would mean nothing, with N, D and the remedy, in one line; else None."""
        return None

    @abstractmethod
    def reset(self) -> Self:
        """Forget all data. Returns self."""

    @abstractmethod
    def partial_fit(self, x: Rows) -> Self:
        """Add rows; any chunking gives what one :meth:`fit` gives. Returns self."""

    @abstractmethod
    def merge(self, other: "Calibration") -> Self:
        """Add the data that another calibration of the same class has seen. Returns self."""

    @abstractmethod
    def transform(self, x: Rows, *, dtype: torch.dtype = torch.float32) -> Tensor:
        """Map rows ``(N, D)`` to ``(N, k)``, on the device of ``x``."""

    @abstractmethod
    def inverse_transform(self, y: Rows, *, dtype: torch.dtype = torch.float32) -> Tensor:
        """Map rows ``(N, k)`` back to ``(N, D)``; the pseudo-inverse where the map drops directions."""

    @abstractmethod
    def state_dict(self) -> dict[str, Tensor]:
        """What was learned, as plain tensors; with :attr:`config` it restores the calibration."""

    @abstractmethod
    def load_state_dict(self, state: Mapping[str, Tensor]) -> Self:
        """Take over a :meth:`state_dict`. Returns self."""

    def fit(self, x: Rows) -> Self:
        """Fit on these rows alone, forgetting earlier ones. Returns self.

        Raises:
            UserError: If ``x`` has no rows, is not 2-D, or holds NaN or infinity.
        """
        rows = checked_rows(x)
        if len(rows) == 0:
            raise UserError("cannot fit on 0 rows; allowed: at least 1")
        return self.reset().partial_fit(rows)

    @property
    def config(self) -> dict[str, Any]:
        """Constructor arguments as JSON values."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def save(self, path: str | Path) -> Path:
        """Write one safetensors file with the class, arguments and version as JSON metadata. Returns the path."""
        metadata = {"class": type(self).__name__, "config": self.config, "flowbert": __version__}
        return write_container(path, _FORMAT, self.state_dict(), metadata)

    @classmethod
    def load(cls, path: str | Path) -> "Calibration":
        """Read a file of :meth:`save`; the result has the class that was saved.

        Raises:
            UserError: If the file is missing, damaged, not a calibration, or of another class than this one.
        """
        metadata, state = read_container(path, _FORMAT, "calibration", "fit and save it again")
        classes = {known.__name__: known for known in _METHODS.values() if issubclass(known, cls)}
        name = metadata["class"]
        if name not in classes:
            raise UserError(f"{path}: holds a {name}; {choices(classes, name)}")
        return classes[name](**metadata["config"]).load_state_dict(state)

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.config.items())
        return f"{type(self).__name__}({arguments})"


def checked_rows(x: Rows, dim: int | None = None) -> Tensor:
    """Rows as a tensor after the checks that every calibration makes.

    Args:
        x: Rows of shape ``(N, D)``, torch or numpy, of any real dtype.
        dim: The D that is needed, if already known.

    Raises:
        UserError: If ``x`` is not 2-D, has another width than ``dim``, or holds NaN or infinity.
    """
    rows = x if isinstance(x, Tensor) else torch.tensor(np.asarray(x))
    if rows.ndim != 2 or rows.shape[1] == 0 or rows.is_complex():
        raise UserError(f"embeddings have the shape {tuple(rows.shape)} ({rows.dtype}); allowed: real (N, D), D >= 1")
    if dim is not None and rows.shape[1] != dim:
        raise UserError(f"embeddings have {rows.shape[1]} dimensions; allowed: {dim}, as fitted")
    bad = ~torch.isfinite(rows)
    if bool(bad.any()):
        bad_rows = bad.any(dim=1).nonzero().flatten()
        raise UserError(
            f"embeddings hold {int(bad.sum())} NaN or infinite values in {len(bad_rows)} of {len(rows)} rows "
            f"and {int(bad.any(dim=0).sum())} of {rows.shape[1]} columns (first row: {int(bad_rows[0])}); "
            "allowed: finite values"
        )
    return rows

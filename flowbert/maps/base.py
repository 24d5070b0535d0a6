"""Base classes of maps: scikit-learn's contract, rows in and out, affine maps."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_array, check_is_fitted, validate_data
from torch import Tensor

from flowbert.arrays import BLOCK_ROWS, to_tensor
from flowbert.errors import UserError
from flowbert.maps.state import pack, unpack
from flowbert.numbers import is_count
from flowbert.registry import Registry
from flowbert.vectors import Vectors
from flowbert.vectors.moments import Moments

# Types of arrays that are read as they are, also in a foreign byte order; others become float64.
_FLOATS = [np.dtype(x) for x in ("f8", "f4", "f2", ">f4", ">f2", "<f4", "<f2")]
_DOUBLE = {np.dtype("f8"), torch.float64}

LabelledPairs = tuple[Any, Any, Any]
"""Vectors of labelled pairs, ``(P, D)`` each, and their scores ``(P,)``."""


class Map(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """A map of sentence embeddings as a scikit-learn transformer.

    Rows may be numpy arrays or torch tensors; the result is of the same kind, on the same device.
    Maps compute in float64. Rows in float32 or half precision are mapped to float32, others to
    float64 (tensors of integers to float32).

    Attributes:
        size_parameter: Parameter that a number after the name sets, as in ``whitening-128``.
        seeded: Whether the fit draws random numbers (a parameter ``random_state``).
        supervised: Whether it learns from labelled pairs, which ``fit`` then requires.
    """

    size_parameter: ClassVar[str | None] = None
    seeded: bool = False
    supervised: bool = False
    min_samples: ClassVar[int] = 1

    @property
    def name(self) -> str:
        """Name of the class in :data:`MAPS`, or its import path."""
        return MAPS.name_of(type(self))

    @property
    def text(self) -> str:
        """Name and parameters that are not the default, as :func:`make_map` reads them."""
        return MAPS.write(type(self), self.get_params(deep=False))

    @property
    def parts(self) -> list["Map"]:
        """The map itself, or the maps of a chain."""
        return [self]

    @property
    def is_fitted(self) -> bool:
        """Whether the map was fitted or restored."""
        try:
            check_is_fitted(self)
        except NotFittedError:
            return False
        return True

    @property
    def invalid_reason(self) -> str | None:
        """Why the fitted map is undefined, in one line; None if it is not."""
        return getattr(self, "invalid_reason_", None)

    def check(self, dim: int, argument: str = "methods") -> int:
        """Check the parameters of all parts for rows of size ``dim``; returns the mapped size.

        Args:
            dim: Size D of the rows.
            argument: Name of the argument, for messages.

        Raises:
            UserError: If a parameter is not allowed; the message names the part.
        """
        for part in self.parts:
            try:
                dim = part.output_dim(dim)
            except (UserError, TypeError) as error:
                raise UserError(f"{part.text}: {error}", argument=argument) from error
        return dim

    def output_dim(self, dim: int) -> int:
        """Check the parameters for rows of size ``dim``; returns the size of the mapped rows.

        Raises:
            UserError: If a parameter is not allowed.
        """
        return dim

    def require(self, name: str, valid: bool, expected: str) -> None:
        """Raise a UserError for the parameter ``name`` unless it is valid."""
        if not valid:
            received = getattr(self, name)
            raise UserError(argument=name, received=received, expected=expected)

    def check_pairs(self, pairs: LabelledPairs | None) -> None:
        """Raise a UserError if the map learns from labelled pairs and none are given."""
        if self.supervised and pairs is None:
            raise UserError(
                f"{self.name}: received no labelled pairs; expected some to learn from "
                "(fit with pairs=(left, right, scores))"
            )

    def check_count(self, name: str, most: int) -> int:
        """Check a parameter that counts directions, and return it; all of them for None."""
        value = getattr(self, name)
        valid = value is None or is_count(value, 1, most)
        self.require(name, valid, f"a whole number from 1 to {most}, or none")
        return most if value is None else int(value)

    def fit(self, X: Any, y: Any = None, pairs: LabelledPairs | None = None) -> Self:
        """Fit on rows ``(N, D)``; y is ignored. Returns self.

        A map that learns extends this method, and sets attributes: tensors and plain values.

        Args:
            X: Rows to fit on.
            y: Ignored.
            pairs: Vectors of labelled pairs and their scores; used if :attr:`supervised`.
        """
        self._row_blocks(X)
        self.output_dim(self.n_features_in_)
        self.check_pairs(pairs)
        return self

    def _apply(self, rows: Tensor) -> Tensor:
        """Map rows ``(n, D)``, float64."""
        raise NotImplementedError

    def _invert(self, rows: Tensor) -> Tensor:
        """Map rows ``(n, k)`` back, float64."""
        raise NotImplementedError

    def affine(self) -> tuple[Tensor, Tensor]:
        """Weight W ``(D, k)`` and bias b ``(k,)``, float64, with ``transform(x) = x W + b``.

        Raises:
            UserError: If the map is not affine.
        """
        raise UserError(f"{self.name}: is not affine; expected an affine map")

    def get_state(self) -> dict[str, Any]:
        """The attributes that ``fit`` has set, tensors and plain values, by name.

        Raises:
            UserError: If an attribute cannot be saved.
        """
        check_is_fitted(self)
        return pack({name: getattr(self, name) for name in self._fitted_attributes()})

    def set_state(self, state: Mapping[str, Any]) -> Self:
        """Restore a state of :meth:`get_state`, in place of what was fitted. Returns self."""
        for name in self._fitted_attributes():
            delattr(self, name)
        for name, value in unpack(state).items():
            setattr(self, name, value)
        return self

    def _fitted_attributes(self) -> list[str]:
        names = vars(self).keys() - self.get_params(deep=False).keys()
        # Private ones are scikit-learn's, or computed from the others.
        return sorted(name for name in names if not name.startswith("_"))

    def _set_unnamed_features(self, dim: int) -> None:
        """Set ``n_features_in_``, and forget the names of an earlier frame's columns."""
        self.n_features_in_ = dim
        self.__dict__.pop("feature_names_in_", None)

    def set_run_parameters(self, seed: int, accelerator: str) -> None:
        """Set ``random_state`` and ``accelerator``, if the map has these parameters."""
        values = {"random_state": seed, "accelerator": accelerator}
        names = values.keys() & self.get_params(deep=False)
        self.set_params(**{name: values[name] for name in names})

    def used_parameters(self) -> dict[str, Any]:
        """The parameters that a fit uses, with the values of defaults that depend on others."""
        parameters: dict[str, Any] = self.get_params(deep=False)
        return parameters

    def transform(self, X: Any) -> Any:
        """Map rows ``(N, D)`` to ``(N, k)``."""
        return self._by_blocks(self._apply, self._rows(X))

    def inverse_transform(self, X: Any) -> Any:
        """Map rows ``(N, k)`` back to ``(N, D)``; if k is below D, to the nearest rows."""
        check_is_fitted(self)
        rows = check_rows(X, least=0, dim=self._n_features_out)
        return self._by_blocks(self._invert, rows)

    def _rows(self, X: Any) -> Any:
        """Checked rows ``(N, D)`` for the fitted map, an array or a tensor."""
        check_is_fitted(self)
        if isinstance(X, Tensor):
            return check_rows(X, least=0, dim=self.n_features_in_)
        return validate_data(self, X, dtype=_FLOATS, reset=False, ensure_min_samples=0)

    @property
    def _n_features_out(self) -> int:
        """Size k of a mapped row, which may be below :meth:`output_dim`."""
        row = torch.zeros(1, self.n_features_in_, dtype=torch.float64)
        return self._apply(row).shape[1]

    def _by_blocks(self, function: Callable[[Tensor], Tensor], X: Any) -> Any:
        """A function of all blocks of checked rows, in the kind and precision of the rows."""
        dtype = torch.float64 if X.dtype in _DOUBLE else torch.float32
        mapped = torch.cat([function(block).to(dtype) for block in double_blocks(X)])
        return mapped.to(X.device) if isinstance(X, Tensor) else mapped.numpy()

    def _row_blocks(self, X: Any) -> Iterator[Tensor]:
        """Check the rows to fit on, and set ``n_features_in_``.

        Returns:
            The rows in blocks; vectors are read one block after another.
        """
        if isinstance(X, Vectors):
            self._set_unnamed_features(X.shape[1])
            return map(torch.from_numpy, X.blocks())
        if isinstance(X, Tensor):
            rows = check_rows(X, least=self.min_samples)
            self._set_unnamed_features(rows.shape[1])
        else:
            rows = validate_data(
                self, X, dtype=_FLOATS, ensure_min_samples=self.min_samples
            )
        starts = range(0, len(rows), BLOCK_ROWS)
        return (to_tensor(rows[start : start + BLOCK_ROWS]) for start in starts)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


MAPS: Registry[type[Map]] = Registry(
    "map",
    base=Map,
    given=("random_state", "accelerator"),
    extras={
        "views": "flowbert.extras.views.ViewsMap",
        "nulling": "flowbert.extras.maps.all_but_the_top.RemoveDirections",
        "learned-removal": "flowbert.extras.maps.all_but_the_top.LearnedRemoval",
    },
)
"""Maps by name; seed and device belong to a fit, not to the name."""


class AffineMap(Map):
    r"""A map :math:`y = (x - \mu) W` that is solved from the moments of the rows.

    A subclass defines :meth:`solve`. For rows in chunks, update or merge their moments and call
    :meth:`fit_moments`.

    Attributes:
        center_: :math:`\mu`, ``(D,)``, float64.
        weight_: W, ``(D, k)``, float64.
    """

    invalid_reason_: str | None

    @abstractmethod
    def solve(self, moments: Moments) -> tuple[Tensor, Tensor]:
        """Center and weight for these moments."""

    def require_rows(self, moments: Moments, directions: int, effect: str) -> None:
        """Set :attr:`invalid_reason` if the distinct rows are too few for the map."""
        if directions >= moments.distinct - 1:
            self.invalid_reason_ = (
                f"{self.name} of N={moments.distinct} distinct sentences in D={moments.dim} "
                f"dimensions {effect}; use shrinkage, fewer directions or more sentences"
            )

    def fit(self, X: Any, y: Any = None, pairs: LabelledPairs | None = None) -> Self:
        """Fit on rows ``(N, D)``; y is ignored. Returns self."""
        blocks = self._row_blocks(X)
        moments = Moments(self.n_features_in_).update_blocks(blocks)
        return self._fit(moments, pairs)

    def fit_moments(self, moments: Moments, pairs: LabelledPairs | None = None) -> Self:
        """Fit on the moments of the rows, such as merged ones. Returns self."""
        self._set_unnamed_features(moments.dim)
        return self._fit(moments, pairs)

    def _fit(self, moments: Moments, pairs: LabelledPairs | None) -> Self:
        self.output_dim(moments.dim)
        self.check_pairs(pairs)
        self.invalid_reason_ = None
        self.__dict__.pop("_inverse", None)
        if pairs is not None:
            self.learn(moments, pairs)
        # A product rounds by the layout of its factors: the same before and after saving.
        self.center_, self.weight_ = (x.contiguous() for x in self.solve(moments))
        return self

    def learn(self, moments: Moments, pairs: LabelledPairs) -> None:
        """Learn from labelled pairs before :meth:`solve`; by default, nothing is learned."""

    def affine(self) -> tuple[Tensor, Tensor]:
        """Weight W ``(D, k)`` and bias b ``(k,)``, float64, with ``transform(x) = x W + b``."""
        check_is_fitted(self)
        return self.weight_.clone(), -(self.center_ @ self.weight_)

    def _apply(self, rows: Tensor) -> Tensor:
        return (rows - self.center_.to(rows.device)) @ self.weight_.to(rows.device)

    def _invert(self, rows: Tensor) -> Tensor:
        return rows @ self._inverse.to(rows.device) + self.center_.to(rows.device)

    @cached_property
    def _inverse(self) -> Tensor:
        """Pseudo-inverse of the weight, ``(k, D)``, computed once after a fit."""
        inverse: Tensor = torch.linalg.pinv(self.weight_)
        return inverse

    def set_state(self, state: Mapping[str, Any]) -> Self:
        """Restore what :meth:`get_state` gave. Returns self."""
        self.__dict__.pop("_inverse", None)
        return super().set_state(state)


def check_rows(
    X: Any, name: str = "X", *, least: int = 1, dim: int | None = None
) -> Any:
    """Rows ``(N, D)``, an array or a tensor of finite numbers.

    Args:
        X: The rows.
        name: Name of the argument, for messages.
        least: Smallest number of rows.
        dim: Their size D; None for any.

    Raises:
        ValueError: If they are something else.
    """
    if not isinstance(X, Tensor):
        X = check_array(X, dtype=_FLOATS, input_name=name, ensure_min_samples=least)
    elif X.ndim != 2 or len(X) < least or not X.shape[1]:
        shape, expected = tuple(X.shape), f"(N, D), N at least {least}"
        raise ValueError(f"{name}: received the shape {shape}; expected {expected}")
    elif not bool(torch.isfinite(X).all()):
        raise ValueError(f"{name}: received NaN or infinity; expected finite numbers")
    if dim not in (None, X.shape[1]):
        shape = tuple(X.shape)
        raise ValueError(f"{name}: received the shape {shape}; expected (N, {dim})")
    return X


def double_blocks(X: Any) -> Iterator[Tensor]:
    """Blocks of checked rows in float64; without rows, one empty block.

    They are on the device of the rows, or on the CPU if the device has no float64 (Apple's GPU).
    """
    for start in range(0, max(len(X), 1), BLOCK_ROWS):
        rows = to_tensor(X[start : start + BLOCK_ROWS])
        device = "cpu" if rows.device.type == "mps" else rows.device
        yield rows.to(device, torch.float64)

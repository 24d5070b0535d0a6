"""Chains of maps, scikit-learn transformers as maps, and maps by their text."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import TransformerMixin
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from flowbert.errors import UserError
from flowbert.flows import Glow
from flowbert.maps.base import MAPS, LabelledPairs, Map, check_rows
from flowbert.maps.flow import Flow
from flowbert.maps.state import join_states, state_of_part
from flowbert.registry import imports_refused, split_spec
from flowbert.vectors import Vectors


class SklearnTransformer(Map):
    """A transformer of scikit-learn, or of its kind, as a map; it is fitted and applied as it is.

    Args:
        estimator: The transformer, fitted or not.

    Example:
        >>> from sklearn.decomposition import PCA
        >>> SklearnTransformer(PCA(n_components=2)).name
        'PCA(n_components=2)'
    """

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    @property
    def name(self) -> str:
        """The transformer with its parameters that are not the default, in one line."""
        return " ".join(str(self.estimator).split())

    @property
    def text(self) -> str:
        """The name."""
        return self.name

    @property
    def seeded(self) -> bool:  # type: ignore[override]
        """Whether a seed is to be given: there is a ``random_state``, and it is None."""
        return self.estimator.get_params().get("random_state", 0) is None

    def set_run_parameters(self, seed: int, accelerator: str) -> None:
        """Set the ``random_state`` of the transformer, where it is None."""
        if self.seeded:
            self.estimator.set_params(random_state=seed)

    @property
    def n_features_in_(self) -> int | None:
        """Size of the rows; None where the transformer takes any."""
        return getattr(self.estimator, "n_features_in_", None)

    def __sklearn_is_fitted__(self) -> bool:
        try:
            check_is_fitted(self.estimator)
        except NotFittedError:
            return False
        return True

    def output_dim(self, dim: int) -> int:
        """The size of the rows: that of the mapped ones is known after the fit."""
        return dim

    def fit(self, X: Any, y: Any = None, pairs: LabelledPairs | None = None) -> Self:
        """Fit on rows ``(N, D)``. Returns self.

        Raises:
            UserError: If the transformer cannot be fitted on rows alone.
        """
        rows = X[:] if isinstance(X, Vectors) else check_rows(X)
        try:
            self.estimator.fit(np.asarray(rows))
        except (TypeError, ValueError) as error:
            raise UserError(f"{self.name}: cannot be fitted: {error}") from error
        return self

    def transform(self, X: Any) -> Any:
        """Map rows ``(N, D)`` to ``(N, k)``."""
        rows = check_rows(X)
        array = rows.detach().cpu().numpy() if isinstance(rows, Tensor) else rows
        mapped: Any = self.estimator.transform(array)
        if not isinstance(rows, Tensor):
            return mapped
        return torch.from_numpy(np.array(mapped)).to(rows.device, rows.dtype)

    def get_state(self) -> dict[str, Any]:
        """Raise a UserError: a transformer cannot be saved here, only by its library.

        Raises:
            UserError: Always.
        """
        raise UserError(f"{self.name}: cannot be saved; expected maps of flowbert")

    def _apply(self, rows: Tensor) -> Tensor:
        return torch.from_numpy(self.transform(rows.numpy()))

    def _invert(self, rows: Tensor) -> Tensor:
        return torch.from_numpy(self.estimator.inverse_transform(rows.numpy()))


class Chain(Pipeline, Map):
    """Maps one after another; each is fitted on what those before it have mapped.

    A pipeline of scikit-learn whose steps are maps, with ``STEP__PARAMETER`` for their parameters.

    Args:
        steps: Names and maps, as in a pipeline.

    Example:
        >>> from flowbert.maps import Whitening
        >>> chain = Chain.of(Whitening(n_components=4), Whitening())
        >>> chain.text, chain.set_params(**{"whitening-2__exponent": -0.4}).text
        ('whitening-4+whitening', 'whitening-4+whitening:exponent=-0.4')
    """

    def __init__(self, steps: Sequence[tuple[str, Map]]) -> None:
        super().__init__(steps)

    @classmethod
    def of(cls, *parts: Map) -> Self:
        """The chain of these maps, whose classes name the steps."""
        return cls(make_pipeline(*parts).steps)

    @property
    def parts(self) -> list[Map]:
        """The maps, in order."""
        return [part for _, step in self.steps for part in step.parts]

    @property
    def name(self) -> str:
        """Names of the parts."""
        return "+".join(part.name for part in self.parts)

    @property
    def text(self) -> str:
        """Texts of the parts, as :func:`make_map` reads them."""
        return "+".join(part.text for part in self.parts)

    @property
    def seeded(self) -> bool:  # type: ignore[override]
        """Whether a part draws random numbers."""
        return any(part.seeded for part in self.parts)

    @property
    def supervised(self) -> bool:  # type: ignore[override]
        """Whether a part learns from labelled pairs."""
        return any(part.supervised for part in self.parts)

    @property
    def invalid_reason(self) -> str | None:
        """Why the fitted chain is undefined, in one line; None if it is not."""
        return first_reason(self.parts)

    def output_dim(self, dim: int) -> int:
        """Check the parameters of all parts for rows of size ``dim``; the size of mapped rows."""
        for part in self.parts:
            dim = part.output_dim(dim)
        return dim

    fit_transform = TransformerMixin.fit_transform

    def fit(self, X: Any, y: Any = None, pairs: LabelledPairs | None = None) -> Self:
        """Fit on rows ``(N, D)``; y is ignored. Returns self.

        Args:
            X: Rows to fit on.
            y: Nothing.
            pairs: Vectors of labelled pairs, ``(P, D)`` each, and their scores ``(P,)``; needed
                where a part learns from them.

        Raises:
            UserError: If a part learns from labelled pairs and there are none.
        """
        for number, part in enumerate(self.parts):
            if number:
                before = self.parts[number - 1]
                # Vectors are in memory only where they are mapped.
                X = before.transform(X[:] if isinstance(X, Vectors) else X)
                if pairs is not None:
                    left, right, scores = pairs
                    pairs = before.transform(left), before.transform(right), scores
            part.fit(X, pairs=pairs)
        return self

    def affine(self) -> tuple[Tensor, Tensor]:
        """Weight W ``(D, k)`` and bias b ``(k,)``, float64, with ``transform(x) = x W + b``.

        Raises:
            UserError: If a part is not affine.
        """
        (weight, bias), *others = (part.affine() for part in self.parts)
        for factor, shift in others:
            weight, bias = weight @ factor, bias @ factor + shift
        return weight, bias

    def _apply(self, rows: Tensor) -> Tensor:
        for part in self.parts:
            rows = part._apply(rows)
        return rows

    def get_state(self) -> dict[str, Any]:
        """The fitted parts as tensors and plain values, by ``NUMBER.NAME``."""
        return join_states(self.parts)

    def set_state(self, state: Mapping[str, Any]) -> Self:
        """Restore what :meth:`get_state` gave. Returns self."""
        for number, part in enumerate(self.parts):
            part.set_state(state_of_part(state, number))
        return self


def first_reason(parts: Sequence[Map]) -> str | None:
    """Why the first undefined map of several is undefined; None if all are defined."""
    return next(filter(None, (part.invalid_reason for part in parts)), None)


def as_map(value: Any) -> Map:
    """A map as it is; pipelines, transformers of scikit-learn and a trained FlowModule as maps.

    Raises:
        UserError: If it is something else.
    """
    if isinstance(value, Map):
        return value
    if isinstance(value, Pipeline):
        steps = [step for _, step in value.steps if step not in (None, "passthrough")]
        if steps:
            return Chain.of(*map(as_map, steps))
    elif isinstance(getattr(value, "flow", None), Glow):
        return Flow.from_module(value)
    elif not isinstance(value, type) and all(
        hasattr(value, method) for method in ("fit", "transform", "get_params")
    ):
        return SklearnTransformer(value)
    raise UserError(
        argument="methods",
        received=type(value).__name__,
        expected="maps, transformers of scikit-learn, a trained FlowModule and models",
    )


def make_map(text: str, argument: str = "methods") -> Map:
    """A new map from ``name[-NUMBER][:option=value]...``, or a chain of several joined by ``+``.

    Args:
        text: Such as ``whitening-128:shrinkage=0.1`` or ``whitening-64+flow:epochs=1``; a name may
            be an import path, ``mypackage.maps.MyMap``.
        argument: Name of the argument, for messages.

    Raises:
        UserError: If a name or option is unknown.

    Example:
        >>> make_map("whitening-128:shrinkage=0.1")
        Whitening(n_components=128, shrinkage=0.1)
    """
    parts = [MAPS.make(part, argument=argument) for part in split_spec(text, "+")]
    return parts[0] if len(parts) == 1 else Chain.of(*parts)


def is_map(text: str) -> bool:
    """Whether a text names a map; no module is imported to see."""
    try:
        with imports_refused():
            make_map(text)
    except UserError:
        return False
    return True

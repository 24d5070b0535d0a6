"""Chains of maps, other estimators as maps, and maps by their text."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

from sklearn.base import TransformerMixin
from sklearn.pipeline import Pipeline, make_pipeline
from torch import Tensor

from flowbert.errors import UserError
from flowbert.flows import Glow
from flowbert.maps.base import MAPS, LabelledPairs, Map
from flowbert.maps.flow import Flow
from flowbert.maps.state import join_states, state_of_part
from flowbert.registry import import_object, imports_refused, split_spec
from flowbert.vectors import Vectors


class Chain(Pipeline, Map):
    """Maps in sequence; each is fitted on the rows that the maps before it return.

    It is a scikit-learn pipeline of maps; ``STEP__PARAMETER`` sets a parameter of one of them.

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
        """The chain of these maps; the steps are named by the classes."""
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

    def __getitem__(self, index: Any) -> Any:
        """A map by its number or name, or the chain of a slice."""
        if isinstance(index, slice):
            return type(self)(self.steps[index])
        return super().__getitem__(index)

    fit_transform = TransformerMixin.fit_transform

    def fit(self, X: Any, y: Any = None, pairs: LabelledPairs | None = None) -> Self:
        """Fit on rows ``(N, D)``; y is ignored. Returns self.

        Args:
            X: Rows to fit on.
            y: Ignored.
            pairs: Vectors of labelled pairs, ``(P, D)`` each, and their scores ``(P,)``; required
                if a part learns from them.

        Raises:
            UserError: If a part learns from labelled pairs and they are missing.
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
        """Restore a state of :meth:`get_state`. Returns self."""
        for number, part in enumerate(self.parts):
            part.set_state(state_of_part(state, number))
        return self


def first_reason(parts: Sequence[Map]) -> str | None:
    """Why the first undefined map of several is undefined; None if all are defined."""
    return next(filter(None, (part.invalid_reason for part in parts)), None)


def as_map(value: Any) -> Map:
    """Make a map of a scikit-learn transformer or pipeline or a trained FlowModule; keep a map.

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
        transformer = "flowbert.extras.maps.transformer.SklearnTransformer"
        made: Map = import_object(transformer)(value)
        return made
    raise UserError(
        argument="methods",
        received=type(value).__name__,
        expected="maps, transformers of scikit-learn, a trained FlowModule and models",
    )


def make_map(text: str, argument: str = "methods") -> Map:
    """Make a map from ``name[-NUMBER][:option=value]...``, or a chain of several joined by ``+``.

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
    """Whether a text names a map; nothing is imported."""
    try:
        with imports_refused():
            make_map(text)
    except UserError:
        return False
    return True

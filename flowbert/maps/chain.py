"""Maps one after another as one map."""

from typing import Any, Self, TypeAlias

from sklearn.pipeline import Pipeline, make_pipeline
from torch import Tensor

from flowbert.maps.base import AffineMap, LabelledPairs, Map
from flowbert.vectors import Vectors


class Chain(Pipeline):
    """A pipeline of maps that is fitted step by step, with labelled pairs where a step learns.

    Each step is fitted on the rows, and learns from the pairs, that the steps before it have
    mapped.

    Example:
        >>> from flowbert.maps import Whitening
        >>> Chain.of(Whitening(n_components=4), Whitening()).name
        'whitening+whitening'
    """

    @classmethod
    def of(cls, *steps: Map) -> Self:
        """The chain of these maps."""
        return cls(make_pipeline(*steps).steps)

    @property
    def maps(self) -> list[Map]:
        """The steps."""
        return [step for _, step in self.steps]

    @property
    def name(self) -> str:
        """Names of the steps."""
        return "+".join(step.name for step in self.maps)

    @property
    def seeded(self) -> bool:
        """Whether a step draws random numbers."""
        return any(step.seeded for step in self.maps)

    @property
    def supervised(self) -> bool:
        """Whether a step learns from labelled pairs."""
        return any(step.supervised for step in self.maps)

    @property
    def invalid_reason(self) -> str | None:
        """Why the fitted chain is undefined, in one line; None if it is not."""
        reasons = (step.invalid_reason for step in self.maps)
        return next(
            (
                invalid_reason
                for invalid_reason in reasons
                if invalid_reason is not None
            ),
            None,
        )

    def output_dim(self, dim: int) -> int:
        """Check the parameters of all steps for rows of size ``dim``; the size of mapped rows."""
        for step in self.maps:
            dim = step.output_dim(dim)
        return dim

    def fit(
        self, X: Any, y: Any = None, pairs: LabelledPairs | None = None, **params: Any
    ) -> Self:
        """Fit on rows ``(N, D)``; y is ignored. Returns self.

        Args:
            X: Rows to fit on.
            y: Nothing.
            pairs: Vectors of labelled pairs, ``(P, D)`` each, and their scores ``(P,)``; needed
                where a step learns from them.
            **params: None are known.

        Raises:
            UserError: If a step learns from labelled pairs and there are none.
        """
        if params:
            raise TypeError(f"fit: received {', '.join(params)}; expected X and pairs")
        for number, step in enumerate(self.maps):
            if number:
                before = self.maps[number - 1]
                # Lazy rows are read whole only where they are mapped.
                X = before.transform(X[:] if isinstance(X, Vectors) else X)
                if pairs is not None:
                    left, right, scores = pairs
                    pairs = before.transform(left), before.transform(right), scores
            step.fit(X, pairs=pairs)
        return self

    def fit_transform(
        self, X: Any, y: Any = None, pairs: LabelledPairs | None = None, **params: Any
    ) -> Any:
        """Fit on rows ``(N, D)``, and map them to ``(N, k)``."""
        return self.fit(X, y, pairs, **params).transform(X)

    def affine(self) -> tuple[Tensor, Tensor]:
        """Weight W ``(D, k)`` and bias b ``(k,)``, float64, with ``transform(x) = x W + b``.

        Raises:
            TypeError: If a step is not affine.
        """
        parts = []
        for step in self.maps:
            if not isinstance(step, AffineMap):
                raise TypeError(f"{step.name} is not affine")
            parts.append(step.affine())
        weight, bias = parts[0]
        for own_weight, own_bias in parts[1:]:
            weight, bias = weight @ own_weight, bias @ own_weight + own_bias
        return weight, bias

    def get_state(self) -> dict[str, Tensor]:
        """The fitted steps as tensors."""
        return {
            f"{number}.{name}": value
            for number, step in enumerate(self.maps)
            for name, value in step.get_state().items()
        }

    def set_state(
        self, state: dict[str, Tensor], invalid_reason: str | None = None
    ) -> Self:
        """Restore what :meth:`get_state` gave; all steps are affine. Returns self."""
        for number, step in enumerate(self.maps):
            if not isinstance(step, AffineMap):
                raise TypeError(f"{step.name} is not affine")
            prefix = f"{number}."
            own = {
                name.removeprefix(prefix): value
                for name, value in state.items()
                if name.startswith(prefix)
            }
            step.set_state(own, invalid_reason)
        return self


AnyMap: TypeAlias = Map | Pipeline
"""A map, or a pipeline of maps."""


def as_map(fitted: AnyMap) -> Map | Chain:
    """A map as it is, and a pipeline of maps as a chain of the same steps."""
    if isinstance(fitted, Pipeline) and not isinstance(fitted, Chain):
        return Chain(fitted.steps)
    return fitted

"""Transformers of scikit-learn as maps."""

from typing import Any, Self

import torch
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from flowbert.arrays import to_tensor
from flowbert.errors import UserError
from flowbert.maps.base import LabelledPairs, Map, check_rows
from flowbert.vectors import Vectors


class SklearnTransformer(Map):
    """A map from a scikit-learn transformer, or an object with the same methods.

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
        """Class of the transformer with its parameters that are not the default, in one line."""
        return " ".join(str(self.estimator).split())

    @property
    def text(self) -> str:
        """The name."""
        return self.name

    @property
    def seeded(self) -> bool:  # type: ignore[override]
        """Whether the transformer needs a seed: its ``random_state`` is None."""
        return self.estimator.get_params().get("random_state", 0) is None

    def set_run_parameters(self, seed: int, accelerator: str) -> None:
        """Set the ``random_state`` of the transformer if it is None."""
        if self.seeded:
            self.estimator.set_params(random_state=seed)

    @property
    def n_features_in_(self) -> int | None:  # type: ignore[override]
        """Size of the rows; None if the transformer accepts any."""
        return getattr(self.estimator, "n_features_in_", None)

    def __sklearn_is_fitted__(self) -> bool:
        try:
            check_is_fitted(self.estimator)
        except NotFittedError:
            return False
        return True

    def fit(self, X: Any, y: Any = None, pairs: LabelledPairs | None = None) -> Self:
        """Fit on rows ``(N, D)``. Returns self.

        Raises:
            UserError: If the transformer cannot be fitted on rows only.
        """
        rows = to_tensor(X[:] if isinstance(X, Vectors) else check_rows(X)).cpu()
        single = torch.promote_types(rows.dtype, torch.float32)
        try:
            self.estimator.fit(rows.to(single).numpy())
        except (TypeError, ValueError) as error:
            raise UserError(f"{self.name}: cannot be fitted: {error}") from error
        return self

    def transform(self, X: Any) -> Any:
        """Map rows ``(N, D)`` to ``(N, k)``."""
        return self._by_blocks(self._apply, check_rows(X))

    def inverse_transform(self, X: Any) -> Any:
        """Map rows ``(N, k)`` back to ``(N, D)``, if the transformer supports it."""
        return self._by_blocks(self._invert, check_rows(X))

    def get_state(self) -> dict[str, Any]:
        """Raise a UserError: flowbert cannot save transformers of other libraries.

        Raises:
            UserError: Always.
        """
        raise UserError(f"{self.name}: cannot be saved; expected maps of flowbert")

    def _apply(self, rows: Tensor) -> Tensor:
        mapped: Any = self.estimator.transform(rows.cpu().numpy())
        return to_tensor(mapped)

    def _invert(self, rows: Tensor) -> Tensor:
        mapped: Any = self.estimator.inverse_transform(rows.cpu().numpy())
        return to_tensor(mapped)

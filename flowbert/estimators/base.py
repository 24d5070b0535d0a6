"""What the maps, and what the calibrations among them, have in common as scikit-learn transformers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from flowbert.calibration import Calibration

FLOATS = (np.float64, np.float32)  # what rows may be; others become the first
_NAMES = "feature_names_in"  # beside a saved map


class MapTransformer(TransformerMixin, BaseEstimator):
    """What every map has under scikit-learn's contract: rows that are looked at, and the names of their columns."""

    def _rows(self, X: Any, *, fitting: bool = False, **least: int) -> npt.NDArray[Any]:
        if not fitting:
            check_is_fitted(self)
        rows: npt.NDArray[Any] = validate_data(self, X, dtype=FLOATS, reset=fitting, **least)
        return rows

    def _saved_names(self) -> dict[str, list[str] | None]:
        """Names of the columns that were fitted on, as JSON, beside a saved map; None without."""
        names = getattr(self, "feature_names_in_", None)
        return {_NAMES: None if names is None else list(map(str, names))}

    def _restore_features(self, count: int, metadata: Mapping[str, Any]) -> None:
        """Say of the columns what scikit-learn's ``fit`` says."""
        self.n_features_in_ = count
        names = metadata.get(_NAMES)
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = [np.dtype(kind).name for kind in FLOATS]
        return tags


class CalibrationTransformer(MapTransformer):
    """A :class:`flowbert.calibration.Calibration` under scikit-learn's contract.

    The constructor only stores its arguments, ``fit`` looks at them. Rows in float32 give rows in float32, others
    float64; the arithmetic is float64.

    Attributes:
        calibration_: The fitted calibration, of ``kind``.
        n_features_in_: Size D of the rows.
        feature_names_in_: Names of the columns of the data frame that was fitted on, if it was one.
    """

    kind: ClassVar[type[Calibration]]
    least_features: ClassVar[int] = 1  # that can be fitted on

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit on rows ``(N, D)``; y plays no role. Returns self.

        Raises:
            ValueError: If an argument is out of range, or the rows are not finite numbers of shape ``(N, D)``.
        """
        rows = self._rows(X, fitting=True, ensure_min_features=self.least_features)
        self.calibration_ = self._unfitted().fit(rows)
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Add rows ``(N, D)``; any chunking gives what one ``fit`` gives. Returns self.

        Raises:
            ValueError: As ``fit`` does.
        """
        first = not hasattr(self, "calibration_")
        rows = self._rows(X, fitting=first, ensure_min_features=self.least_features if first else 1)
        if first:
            self.calibration_ = self._unfitted()
        self.calibration_.partial_fit(rows)
        return self

    def transform(self, X: Any) -> npt.NDArray[Any]:
        """Map rows ``(N, D)`` to ``(N, k)``."""
        rows = self._rows(X)
        return self.calibration_.transform(rows, dtype=_torch_dtype(rows)).numpy()

    def inverse_transform(self, X: Any) -> npt.NDArray[Any]:
        """Map rows ``(N, k)`` back to ``(N, D)``: exactly where nothing was cut, else the nearest that is known."""
        check_is_fitted(self)
        rows = check_array(X, dtype=FLOATS)
        return self.calibration_.inverse_transform(rows, dtype=_torch_dtype(rows)).numpy()

    def save(self, path: str | Path) -> Path:
        """Write one safetensors file, which flowbert's calibration of the same name loads, too. Returns the path."""
        check_is_fitted(self)
        return self.calibration_.save(path, self._saved_names())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a file of :meth:`save`, or the map of a run folder, ``model/whitening.safetensors``.

        Raises:
            UserError: If the file is missing, damaged, or of another calibration.
        """
        calibration, metadata = cls.kind.load_with_metadata(path)
        estimator = cls(**calibration.config)
        if calibration.fitted:
            estimator.calibration_ = calibration
            estimator._restore_features(cast(int, calibration.dim), metadata)
        return estimator

    def _unfitted(self) -> Calibration:
        return self.kind(**self.get_params(deep=False))

    @property
    def _n_features_out(self) -> int:
        return self.calibration_.affine_map().weight.shape[1]


def _torch_dtype(rows: npt.NDArray[Any]) -> torch.dtype:
    return torch.float32 if rows.dtype == np.float32 else torch.float64

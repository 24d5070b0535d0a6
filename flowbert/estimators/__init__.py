"""Maps of embeddings as scikit-learn estimators: numpy in, numpy out."""

from importlib.util import find_spec

if find_spec("sklearn") is None:
    raise ImportError("flowbert.estimators needs scikit-learn; install it: pip install 'flowbert[sklearn]'")

from flowbert.estimators.base import CalibrationTransformer
from flowbert.estimators.calibrations import ZCA, Identity, RemoveDirections, Standardization, Truncation, Whitening
from flowbert.estimators.flow import FlowTransformer

__all__ = [
    "ZCA",
    "CalibrationTransformer",
    "FlowTransformer",
    "Identity",
    "RemoveDirections",
    "Standardization",
    "Truncation",
    "Whitening",
]

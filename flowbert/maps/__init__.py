"""Maps of sentence embeddings, as scikit-learn estimators."""

from flowbert.maps.base import MAPS, AffineMap, LabelledPairs, Map
from flowbert.maps.chain import Chain, as_map, is_map, make_map
from flowbert.maps.flow import Flow
from flowbert.maps.saving import load_map, save_map
from flowbert.maps.simple import (
    Centering,
    MeanRemoval,
    Raw,
    Standardization,
    Truncation,
)
from flowbert.maps.state import digest_state
from flowbert.maps.whitening import ZCA, Whitening
from flowbert.vectors.moments import Moments

__all__ = [
    "MAPS",
    "ZCA",
    "AffineMap",
    "Centering",
    "Chain",
    "Flow",
    "LabelledPairs",
    "Map",
    "MeanRemoval",
    "Moments",
    "Raw",
    "Standardization",
    "Truncation",
    "Whitening",
    "as_map",
    "digest_state",
    "is_map",
    "load_map",
    "make_map",
    "save_map",
]

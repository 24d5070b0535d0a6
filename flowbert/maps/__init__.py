"""Maps of sentence embeddings, as scikit-learn estimators."""

from flowbert.maps.all_but_the_top import LearnedRemoval, RemoveDirections
from flowbert.maps.base import MAPS, AffineMap, LabelledPairs, Map
from flowbert.maps.chain import Chain, SklearnTransformer, as_map, is_map, make_map
from flowbert.maps.cosine_percentiles import cosine_percentiles
from flowbert.maps.flow import Flow, log_density
from flowbert.maps.saving import load_map, read_map_file, save_map
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
    "LearnedRemoval",
    "Map",
    "MeanRemoval",
    "Moments",
    "Raw",
    "RemoveDirections",
    "SklearnTransformer",
    "Standardization",
    "Truncation",
    "Whitening",
    "as_map",
    "cosine_percentiles",
    "digest_state",
    "is_map",
    "load_map",
    "log_density",
    "make_map",
    "read_map_file",
    "save_map",
]

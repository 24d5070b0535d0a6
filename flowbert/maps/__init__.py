"""Maps of sentence embeddings, as scikit-learn estimators."""

from flowbert.maps.base import MAPS, AffineMap, LabelledPairs, Map
from flowbert.maps.chain import Chain, as_map, is_map, make_map
from flowbert.maps.flow import Flow
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
from flowbert.registry import lazily
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

__getattr__ = lazily(
    __name__,
    {
        "LearnedRemoval": "maps.all_but_the_top",
        "RemoveDirections": "maps.all_but_the_top",
        "SklearnTransformer": "maps.transformer",
        "cosine_percentiles": "analysis.cosine_percentiles",
        "log_density": "maps.density",
    },
)

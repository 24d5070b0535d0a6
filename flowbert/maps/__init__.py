"""Maps of sentence embeddings, as scikit-learn estimators."""

from flowbert.maps.base import MAPS, AffineMap, LabelledPairs, Map
from flowbert.maps.chain import Chain, SklearnTransformer, as_map, is_map, make_map
from flowbert.maps.cosines import PERCENTILES, SAMPLED_ROWS, Cosines, RandomPairs
from flowbert.maps.flow import Flow, log_density
from flowbert.maps.precision import (
    PRECISIONS,
    Output,
    Ranges,
    Scale,
    check_precision,
    quantize,
)
from flowbert.maps.removal import LearnedRemoval, RemoveDirections
from flowbert.maps.saving import load_map, read_map_file, save_map
from flowbert.maps.simple import (
    Centering,
    MeanRemoval,
    Raw,
    Standardization,
    Truncation,
)
from flowbert.maps.spectral import ZCA, Whitening
from flowbert.maps.state import digest_state
from flowbert.maps.view_maps import ViewsMap
from flowbert.vectors.moments import Moments

__all__ = [
    "MAPS",
    "PERCENTILES",
    "PRECISIONS",
    "SAMPLED_ROWS",
    "ZCA",
    "AffineMap",
    "Centering",
    "Chain",
    "Cosines",
    "Flow",
    "LabelledPairs",
    "LearnedRemoval",
    "Map",
    "MeanRemoval",
    "Moments",
    "Output",
    "RandomPairs",
    "Ranges",
    "Raw",
    "RemoveDirections",
    "Scale",
    "SklearnTransformer",
    "Standardization",
    "Truncation",
    "ViewsMap",
    "Whitening",
    "as_map",
    "check_precision",
    "digest_state",
    "is_map",
    "load_map",
    "log_density",
    "make_map",
    "quantize",
    "read_map_file",
    "save_map",
]

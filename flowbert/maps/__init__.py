"""Maps of sentence embeddings, as scikit-learn estimators."""

from flowbert.maps.base import MAPS, AffineMap, LabelledPairs, Map
from flowbert.maps.chain import AnyMap, Chain, as_map
from flowbert.maps.files import (
    affine_of,
    check_map,
    invalid_reason_of,
    is_map,
    load_map,
    make_map,
    map_name,
    save_map,
    steps_of,
)
from flowbert.maps.flow import Flow
from flowbert.maps.foreign import Foreign
from flowbert.maps.moments import Moments
from flowbert.maps.precision import (
    PRECISIONS,
    Output,
    Ranges,
    Scale,
    check_precision,
    quantize,
)
from flowbert.maps.removal import LearnedRemoval, RemoveDirections
from flowbert.maps.simple import KernelMap, Raw, Standardization, Truncation
from flowbert.maps.spectral import ZCA, Whitening

__all__ = [
    "MAPS",
    "PRECISIONS",
    "ZCA",
    "AffineMap",
    "AnyMap",
    "Chain",
    "Flow",
    "Foreign",
    "KernelMap",
    "LabelledPairs",
    "LearnedRemoval",
    "Map",
    "Moments",
    "Output",
    "Ranges",
    "Raw",
    "RemoveDirections",
    "Scale",
    "Standardization",
    "Truncation",
    "Whitening",
    "affine_of",
    "as_map",
    "check_map",
    "check_precision",
    "invalid_reason_of",
    "is_map",
    "load_map",
    "make_map",
    "map_name",
    "quantize",
    "save_map",
    "steps_of",
]

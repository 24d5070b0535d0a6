"""Maps of sentence embeddings, as scikit-learn estimators."""

from typing import Any

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
from flowbert.registry import import_object
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


def __getattr__(name: str) -> Any:
    """A map of ``flowbert.extras``, imported when it is used."""
    if name in ("LearnedRemoval", "RemoveDirections"):
        return import_object(f"flowbert.extras.maps.all_but_the_top.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

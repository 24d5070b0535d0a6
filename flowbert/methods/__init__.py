"""Every map of embeddings under one contract: raw, calibrations, the flow, chains of them."""

from typing import TYPE_CHECKING, Any

from flowbert.methods.base import FittedMap, LabelledPairs, Method
from flowbert.methods.chain import Chain
from flowbert.methods.embedder import Embedder, load_embedder
from flowbert.methods.registry import make_calibration, parse_methods

if TYPE_CHECKING:
    from flowbert.methods.flow import fit_flow

__all__ = [
    "Chain",
    "Embedder",
    "FittedMap",
    "LabelledPairs",
    "Method",
    "fit_flow",
    "load_embedder",
    "make_calibration",
    "parse_methods",
]


def __getattr__(name: str) -> Any:
    """Import ``fit_flow`` on first use: Lightning takes a second, which only what fits a flow pays."""
    if name != "fit_flow":
        raise AttributeError(f"module 'flowbert.methods' has no attribute {name!r}")
    from flowbert.methods.flow import fit_flow

    return fit_flow

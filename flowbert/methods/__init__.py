"""Methods that a Trainer trains: their LightningModules, heads, losses and examples."""

from typing import Any

from flowbert.maps.flow_module import FlowModule
from flowbert.methods.examples import make_examples
from flowbert.methods.simcse import SimCSEModule
from flowbert.methods.text import TextDataModule
from flowbert.options import TRAINED_METHODS
from flowbert.registry import import_object

__all__ = [
    "FlowModule",
    "MLMModule",
    "SBERTModule",
    "SimCSEModule",
    "TextDataModule",
    "make_examples",
]


def __getattr__(name: str) -> Any:
    """The module of a method of ``flowbert.extras``, imported when it is used."""
    for method in TRAINED_METHODS.values():
        if method.module.endswith(f".{name}"):
            return import_object(method.module)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

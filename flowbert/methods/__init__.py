"""Methods that a Trainer trains: their LightningModules, heads, losses and examples."""

from flowbert.maps.flow_module import FlowModule
from flowbert.methods.examples import make_examples
from flowbert.methods.mlm import MLMModule
from flowbert.methods.sbert import SBERTModule
from flowbert.methods.simcse import SimCSEModule
from flowbert.methods.text import TextDataModule
from flowbert.options import TRAINED_METHODS
from flowbert.registry import import_object
from flowbert.training.base import TrainingModule

METHODS: dict[str, type[TrainingModule]] = {
    name: import_object(method.module) for name, method in TRAINED_METHODS.items()
}
"""LightningModules of ``flowbert.options.TRAINED_METHODS``."""

__all__ = [
    "METHODS",
    "FlowModule",
    "MLMModule",
    "SBERTModule",
    "SimCSEModule",
    "TextDataModule",
    "make_examples",
]

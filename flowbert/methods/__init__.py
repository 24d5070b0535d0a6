"""Methods that a Trainer trains: their LightningModules, heads, losses and examples."""

from flowbert.maps.flow_module import FlowModule
from flowbert.methods.examples import make_examples
from flowbert.methods.mlm import MLMModule
from flowbert.methods.sbert import SBERTModule
from flowbert.methods.simcse import SimCSEModule
from flowbert.methods.text import TextDataModule

__all__ = [
    "FlowModule",
    "MLMModule",
    "SBERTModule",
    "SimCSEModule",
    "TextDataModule",
    "make_examples",
]

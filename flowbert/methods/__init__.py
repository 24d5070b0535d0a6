"""Methods that a Trainer trains: their LightningModules, heads, losses and examples."""

from flowbert.maps.flow_module import FlowModule
from flowbert.methods.distillation import (
    DistillationMethod,
    DistillationModule,
    teach,
)
from flowbert.methods.examples import make_examples
from flowbert.methods.flow import FlowMethod
from flowbert.methods.method import Method
from flowbert.methods.mlm import MLMMethod, MLMModule
from flowbert.methods.sbert import SBERTMethod, SBERTModule
from flowbert.methods.simcse import SimCSEMethod, SimCSEModule
from flowbert.methods.text import TextDataModule

METHODS: dict[str, type[Method]] = {
    method.name: method
    for method in (
        FlowMethod,
        SimCSEMethod,
        SBERTMethod,
        MLMMethod,
        DistillationMethod,
    )
}
"""Methods that a Trainer trains; every other one is a map that is fitted in closed form."""

__all__ = [
    "METHODS",
    "DistillationModule",
    "FlowModule",
    "MLMModule",
    "Method",
    "SBERTModule",
    "SimCSEModule",
    "TextDataModule",
    "make_examples",
    "teach",
]

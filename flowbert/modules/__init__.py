"""The LightningModules."""

from flowbert.modules.base import EmbeddingModule
from flowbert.modules.flow import FlowModule
from flowbert.modules.mlm import MLMModule
from flowbert.modules.sbert import SBERTModule
from flowbert.modules.simcse import SimCSEModule
from flowbert.modules.whitening import WhiteningModule

__all__ = ["EmbeddingModule", "FlowModule", "MLMModule", "SBERTModule", "SimCSEModule", "WhiteningModule"]

"""LightningModules, their data modules and callbacks."""

from flowbert.modules.callbacks import StepLog, WhiteningBaseline
from flowbert.modules.checkpoints import (
    AtomicCheckpointIO,
    checkpoint_callbacks,
    read_checkpoint,
)
from flowbert.modules.evaluation import TaskEvaluation
from flowbert.modules.examples import make_examples
from flowbert.modules.flow import FlowModule
from flowbert.modules.mlm import MLMModule
from flowbert.modules.prediction import VectorWriter
from flowbert.modules.rows import RowsDataModule
from flowbert.modules.sbert import SBERTModule
from flowbert.modules.simcse import SimCSEModule
from flowbert.modules.text import TextDataModule

__all__ = [
    "AtomicCheckpointIO",
    "FlowModule",
    "MLMModule",
    "RowsDataModule",
    "SBERTModule",
    "SimCSEModule",
    "StepLog",
    "TaskEvaluation",
    "TextDataModule",
    "VectorWriter",
    "WhiteningBaseline",
    "checkpoint_callbacks",
    "make_examples",
    "read_checkpoint",
]

"""Shared parts of all trainings: batches of vectors, callbacks, checkpoints, the Trainer."""

from flowbert.training.callbacks import StepLog, WhiteningBaseline
from flowbert.training.checkpoints import (
    AtomicCheckpointIO,
    checkpoint_callbacks,
    read_checkpoint,
)
from flowbert.training.evaluation import TaskEvaluation
from flowbert.training.prediction import VectorWriter
from flowbert.training.rows import RowsDataModule

__all__ = [
    "AtomicCheckpointIO",
    "RowsDataModule",
    "StepLog",
    "TaskEvaluation",
    "VectorWriter",
    "WhiteningBaseline",
    "checkpoint_callbacks",
    "read_checkpoint",
]

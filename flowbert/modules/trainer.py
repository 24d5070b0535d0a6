"""Trainers whose notices are reduced to what a user can act on."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from lightning_fabric.utilities.exceptions import MisconfigurationException
from pytorch_lightning import Trainer

from flowbert.errors import UserError

# Each with the reason why it is harmless here.
_HARMLESS = (
    ".*does not have many workers.*",  # rows come from memory: workers would add copies
    ".*recommended to use `self.log.*sync_dist=True.*",  # computed alike on every process
    ".*You defined a `validation_step` but have no `val_dataloader`.*",  # Flow only fits
    ".*treespec, LeafSpec.*is deprecated.*",  # Lightning 2.6 with torch 2.13
    ".*number of training batches .* is smaller than the logging interval.*",  # short runs
    ".*The dirpath has changed from.*",  # a checkpoint of one run folder used in another
    ".*Experiment logs directory .* exists and is not empty.*",  # earlier figures moved aside
    ".*Checkpoint directory .* exists and is not empty.*",  # a run that is resumed
)


@contextmanager
def quiet_lightning() -> Iterator[None]:
    """Hide Lightning's notices that are harmless; its configuration errors become UserErrors."""
    loggers = [
        logging.getLogger(name) for name in ("pytorch_lightning", "lightning_fabric")
    ]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.WARNING)
    try:
        with warnings.catch_warnings():
            for pattern in _HARMLESS:
                warnings.filterwarnings("ignore", message=pattern)
            yield
    except MisconfigurationException as error:
        raise UserError(f"trainer: {error}") from error
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


@contextmanager
def quiet_trainer(**options: Any) -> Iterator[Trainer]:
    """A Trainer that only fits: no logger, no checkpoint, torch's random state left alone."""
    with quiet_lightning(), torch.random.fork_rng():
        yield Trainer(
            devices=1,
            gradient_clip_val=1.0,
            logger=False,
            enable_checkpointing=False,
            enable_model_summary=False,
            enable_progress_bar=False,
            **options,
        )

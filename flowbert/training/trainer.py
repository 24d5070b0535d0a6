"""Trainers that only show warnings on which a user can act."""

import logging
import random
import signal
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from lightning_fabric.utilities.exceptions import MisconfigurationException
from pytorch_lightning import Callback, Trainer
from pytorch_lightning.callbacks import ProgressBar

from flowbert.errors import UserError
from flowbert.io import without_numpy
from flowbert.registry import Registry
from flowbert.training.callbacks import EpochBar
from flowbert.training.checkpoints import AtomicCheckpointIO

# Patterns of messages, with the reason why each is harmless.
_HARMLESS = (
    ".*does not have many workers.*",  # rows come from memory: workers would add copies
    ".*You defined a `validation_step` but have no `val_dataloader`.*",  # Flow only fits
    ".*treespec, LeafSpec.*is deprecated.*",  # Lightning 2.6 with torch 2.13
    ".*all_gather is deprecated.*",  # the same
    ".*number of training batches .* is smaller than the logging interval.*",  # short runs
    ".*enabled val dataloader shuffling.*",  # validation batches are in order anyway
    ".*The dirpath has changed from.*",  # a checkpoint of one run folder used in another
    ".*Experiment logs directory .* exists and is not empty.*",  # earlier metrics moved aside
    ".*Checkpoint directory .* exists and is not empty.*",  # a run that is resumed
    ".*callbacks used to create the checkpoint.*",  # best.ckpt is by another task than now
)


# Parts of messages about options that Lightning raises as other errors than its own.
_ABOUT_OPTIONS = ("`val_check_interval`", "Early stopping conditioned on metric")


def make_trainer(
    options: Mapping[str, Any], callbacks: Sequence[Callback], **fixed: Any
) -> Trainer:
    """Make a Trainer that writes checkpoints atomically.

    Args:
        options: The user's options.
        callbacks: Callbacks after the user's.
        **fixed: Arguments that the user cannot set.

    Raises:
        UserError: If an option is unknown or has a value that is not allowed.
    """
    settings = {name: _instantiate(value) for name, value in options.items()}
    plugins = [AtomicCheckpointIO()]
    for name, ours in {"callbacks": callbacks, "plugins": plugins}.items():
        chosen = settings.get(name) or []
        settings[name] = [*(chosen if isinstance(chosen, list) else [chosen]), *ours]
    shown = settings.get("enable_progress_bar") in (None, True)
    if shown and not any(isinstance(x, ProgressBar) for x in settings["callbacks"]):
        settings["callbacks"].append(EpochBar())
        settings["enable_progress_bar"] = False
    with quiet_lightning():
        try:
            return Trainer(**without_numpy(settings), **fixed)
        # Lightning raises errors of many types for wrong options.
        except Exception as error:
            raise UserError(str(error).strip(), argument="trainer") from error


def _instantiate(value: Any) -> Any:
    """Make the objects of ``class_path`` and ``init_args``, LightningCLI's notation."""
    if isinstance(value, list):
        return [_instantiate(item) for item in value]
    if not isinstance(value, Mapping) or "class_path" not in value:
        return value
    arguments = value.get("init_args") or {}
    made = {name: _instantiate(x) for name, x in arguments.items()}
    # Refused where a command reads the options from files of a run.
    return Registry("class").find(value["class_path"], "trainer")(**made)


@contextmanager
def quiet_lightning() -> Iterator[None]:
    """Hide harmless notices of Lightning inside the context, and restore its changes afterwards.

    Its configuration errors become UserErrors. After Ctrl-C, Lightning would ignore every further
    Ctrl-C and exit with code 1; instead, the signal handler is restored and KeyboardInterrupt is
    raised again.
    """
    in_main = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGINT)
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
    except (MisconfigurationException, RuntimeError, ValueError) as error:
        is_known = any(text in str(error) for text in _ABOUT_OPTIONS)
        if not (is_known or isinstance(error, MisconfigurationException)):
            raise
        raise UserError(f"{error}", argument="trainer") from error
    except SystemExit as error:
        if isinstance(error.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from None
        raise
    finally:
        if in_main and handler is not None:
            signal.signal(signal.SIGINT, handler)
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed the global generators of Python, numpy and torch inside the context.

    They are for custom callbacks and losses; flowbert draws from streams. Afterwards their state is
    restored.
    """
    drawn, states = random.getstate(), np.random.get_state()  # noqa: NPY002
    with torch.random.fork_rng():
        random.seed(seed)
        np.random.seed(seed % 2**32)  # noqa: NPY002
        torch.manual_seed(seed)
        try:
            yield
        finally:
            random.setstate(drawn)
            np.random.set_state(states)  # noqa: NPY002

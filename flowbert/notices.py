"""The notices of Lightning and transformers, reduced to what a user can act on."""

import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from flowbert.progress import is_hidden, on_terminal

# Patterns of warnings, each with its reason: nothing but its text tells one from another. A test looks them up.
HARMLESS = (
    ".*does not have many workers.*",  # the loaders read a memory map: worker processes would only add copies
    ".*recommended to use `self.log.*sync_dist=True.*",  # STS figures are computed whole on every process
    ".*You defined a `validation_step` but have no `val_dataloader`.*",  # fit_flow only fits
    ".*treespec, LeafSpec.*is deprecated.*",  # Lightning 2.6 with torch 2.13, inside Lightning
    ".*The number of training batches .* is smaller than the logging interval.*",  # short runs are fine
    ".*The dirpath has changed from.*",  # a checkpoint of one run folder used in another
    ".*Experiment logs directory .* exists and is not empty.*",  # its earlier figures were moved aside
    ".*Checkpoint directory .* exists and is not empty.*",  # resuming into an unfinished run folder
)

_PROCESSES = "lightning_fabric.strategies.launchers.subprocess_script"  # says why it ends all: one of them has died


@contextmanager
def transformers_notices_off() -> Iterator[None]:
    """Keep transformers' load reports and progress bars off the terminal; the caller checks what matters in them."""
    from transformers.utils import logging as log

    verbosity, bars = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity(logging.ERROR)
    log.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        log.set_verbosity(verbosity)
        if bars:
            log.enable_progress_bar()  # type: ignore[no-untyped-call]


@contextmanager
def hub_bars() -> Iterator[None]:
    """The bars of huggingface_hub and datasets on a terminal only, and not where progress is switched off."""
    if on_terminal() and not is_hidden():
        yield
        return
    from huggingface_hub.utils import disable_progress_bars  # type: ignore[attr-defined]  # as its documents say

    datasets: Any = sys.modules.get("datasets")  # who uses it has imported it
    enabled = datasets is not None and not datasets.are_progress_bars_disabled()
    with disable_progress_bars(), ExitStack() as stack:
        if enabled:
            datasets.disable_progress_bars()
            stack.callback(datasets.enable_progress_bars)
        yield


@contextmanager
def loggers_at(level: int, *names: str) -> Iterator[None]:
    """Let loggers (``""``: the root) write from a level on, for a while."""
    loggers = [logging.getLogger(name) for name in names]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(level)
    try:
        yield
    finally:
        for logger, earlier in zip(loggers, before, strict=True):
            logger.setLevel(earlier)


@contextmanager
def lightning_notices_filtered() -> Iterator[None]:
    """Let Lightning (imported before) log warnings and errors only, without those that are known and harmless."""
    logging.getLogger(_PROCESSES).setLevel(logging.INFO)
    with loggers_at(logging.WARNING, "pytorch_lightning", "lightning_fabric"), warnings.catch_warnings():
        for pattern in HARMLESS:
            warnings.filterwarnings("ignore", message=pattern)
        yield

"""Loggers of ``--log_to``: wandb and TensorBoard."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pytorch_lightning.loggers import Logger, TensorBoardLogger, WandbLogger


def make_named_loggers(names: Sequence[str], folder: Path) -> list[Logger]:
    """Loggers of a run.

    Args:
        names: ``wandb``, ``wandb-offline`` or ``tensorboard``.
        folder: The run folder.
    """
    loggers: list[Logger] = []
    for name in names:
        if name == "tensorboard":
            loggers.append(TensorBoardLogger(folder, name="tensorboard", version=""))
        else:
            folder.mkdir(parents=True, exist_ok=True)
            offline = name == "wandb-offline" or not _wandb_is_online()
            loggers.append(
                WandbLogger(
                    project="flowbert",
                    name=folder.name,
                    save_dir=folder,
                    offline=offline,
                    # WandbLogger's environment variable is ignored once wandb is set up.
                    mode="offline" if offline else None,
                )
            )
    return loggers


def _wandb_is_online() -> bool:
    if os.environ.get("WANDB_MODE") in ("offline", "disabled"):
        return False
    import wandb

    if wandb.api.api_key:
        return True
    print(
        "wandb: no API key, logging offline; `wandb sync` uploads the run",
        file=sys.stderr,
    )
    return False


@contextmanager
def wandb_run_ended() -> Iterator[None]:
    """End the wandb run that is opened inside the block, as failed after an exception.

    Otherwise the next training in the process would write into this run. A run that was open before
    stays open.
    """
    before = _wandb_run()
    exit_code = 1
    try:
        yield
        exit_code = 0
    finally:
        opened = _wandb_run()
        if opened is not None and opened is not before:
            opened.finish(exit_code=exit_code)


def _wandb_run() -> Any:
    """The open run of this process; does not import wandb."""
    wandb: Any = sys.modules.get("wandb")
    return None if wandb is None else wandb.run

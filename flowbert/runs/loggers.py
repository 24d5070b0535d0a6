"""Where figures go: CSV always, wandb and TensorBoard when asked."""

import itertools
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pytorch_lightning.loggers import Logger, TensorBoardLogger, WandbLogger

from flowbert.errors import UserError, choices
from flowbert.io.run_folder import RunFolder
from flowbert.training.metrics_log import MetricsLog, digest_rows, read_metrics

LOG_TO = ("wandb", "wandb-offline", "tensorboard")


def check_log_to(names: Sequence[str]) -> None:
    """Raise a UserError for an unknown destination."""
    for name in names:
        if name not in LOG_TO:
            raise UserError(f"log_to: received {name!r}; {choices(LOG_TO, name)}")


def make_loggers(names: Sequence[str], run: RunFolder, earlier: Sequence[dict[str, str]] = ()) -> list[Logger]:
    """Loggers for a run; the CSV one (``metrics.csv``) comes first and always.

    ``wandb`` without a key falls back to offline with one line, before anything expensive runs.

    Args:
        names: Where figures go beside ``metrics.csv``.
        run: The run folder.
        earlier: Rows of ``metrics.csv`` up to the checkpoint that a run goes on from; none for a new run.
    """
    if not earlier or digest_rows(read_metrics(run.metrics, len(earlier))) != digest_rows(earlier):
        _move_aside(run.metrics)
    loggers: list[Logger] = [MetricsLog(run.path, earlier)]
    for name in names:
        if name == "tensorboard":
            loggers.append(TensorBoardLogger(run.path, name="tensorboard", version=""))
        else:
            run.path.mkdir(parents=True, exist_ok=True)
            offline = name == "wandb-offline" or not _wandb_can_be_online()
            settings: dict[str, Any] = {"project": "flowbert", "name": run.path.name, "save_dir": run.path}
            loggers.append(WandbLogger(offline=offline, **settings))
    return loggers


def _move_aside(metrics: Path) -> None:
    """Move the figures of an interrupted run aside (``metrics-1.csv``, ...)."""
    if metrics.exists():
        number = next(n for n in itertools.count(1) if not metrics.with_name(f"metrics-{n}.csv").exists())
        metrics.rename(metrics.with_name(f"metrics-{number}.csv"))


def _wandb_can_be_online() -> bool:
    if os.environ.get("WANDB_MODE") in ("offline", "disabled"):
        return False
    import wandb

    if wandb.api.api_key:  # of the environment, or of ~/.netrc
        return True
    print("wandb: no API key found, logging offline; `wandb login` and `wandb sync` put it online", file=sys.stderr)
    return False

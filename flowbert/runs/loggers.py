"""Where figures go: CSV always, wandb and TensorBoard when asked; and what these are given at the end of a fit."""

import itertools
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pytorch_lightning.loggers import Logger, TensorBoardLogger, WandbLogger
from torch import Tensor

from flowbert.errors import UserError, choices
from flowbert.evaluation.results import Row
from flowbert.io.metrics_file import digest_rows, read_metrics
from flowbert.io.run_folder import RunFolder
from flowbert.training.metrics_log import MetricsLog

LOG_TO = ("wandb", "wandb-offline", "tensorboard")
_SHOWN = (  # columns of the table of results
    *("method", "encoder", "layers", "pooling", "corpus", "task", "split", "aggregation", "metric", "value", "pairs"),
    *("alignment", "uniformity", "mean_cosine", "seed"),
)


def check_log_to(names: Sequence[str]) -> None:
    """Raise a UserError for an unknown destination, or one named twice."""
    for name in names:
        if name not in LOG_TO:
            raise UserError(f"log_to: received {name!r}; {choices(LOG_TO, name)}")
    if len({name.partition("-")[0] for name in names}) < len(names):  # wandb has one run at a time
        raise UserError(f"log_to: received {', '.join(names)}; allowed: wandb or wandb-offline, each name once")


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
            if offline:
                settings["settings"] = _silent()
            loggers.append(WandbLogger(offline=offline, **settings))
    return loggers


def log_results(loggers: Iterable[Logger], run: RunFolder, rows: Sequence[Row]) -> None:
    """Give wandb what a finished run has: a table of its results, its files, its folder ``model``; and end it there.

    Args:
        loggers: Those of :func:`make_loggers`; others than wandb's have the figures already.
        run: The run folder.
        rows: Its results.
    """
    for logger in loggers:
        if not isinstance(logger, WandbLogger):
            continue
        import wandb

        cells = [[getattr(row, name) for name in _SHOWN] for row in rows]
        table = wandb.Table(columns=list(_SHOWN), data=cells, allow_mixed_types=True)
        logger.experiment.log({"results": table})
        name = f"run-{logger.experiment.id}"
        results, model = wandb.Artifact(f"{name}-results", "results"), wandb.Artifact(f"{name}-model", "model")
        for file in (run.config, run.metrics, run.results, run.report):
            if file.is_file():  # a run from code has no config
                results.add_file(str(file), policy="immutable")
        model.add_dir(str(run.model), policy="immutable")  # no copy: a finished run is never overwritten
        for artifact in (results, model):
            logger.experiment.log_artifact(artifact)
        logger.experiment.finish()  # the next fit of this process is another run


def log_embeddings(logger: TensorBoardLogger, sentences: Sequence[str], maps: Iterable[tuple[str, Tensor]]) -> None:
    """Give TensorBoard's projector embeddings of sentences.

    Args:
        logger: TensorBoard's.
        sentences: N sentences.
        maps: Name and embeddings ``(N, k)`` of each map.
    """
    lines = [" ".join(sentence.split()) for sentence in sentences]  # one line each in its file
    for name, embeddings in maps:
        logger.experiment.add_embedding(embeddings, metadata=lines, tag=name)


def _silent() -> Any:
    """Settings under which wandb writes its files and says nothing."""
    import wandb

    settings = wandb.Settings(mode="offline", silent=True, console="off")
    wandb.setup(settings)
    wandb.termsetup(settings, None)  # setup leaves it as it is where wandb has been used before
    return settings


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

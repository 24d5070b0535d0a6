"""Checkpoints from which a run goes on as if it had never stopped."""

import time
import warnings
from pathlib import Path
from typing import Any

import torch
from pytorch_lightning import LightningModule, Trainer
from pytorch_lightning.callbacks import Checkpoint, ModelCheckpoint
from pytorch_lightning.plugins.io import TorchCheckpointIO

from flowbert.errors import FlowbertWarning, UserError
from flowbert.io.atomic import written_atomically
from flowbert.io.run_folder import LAST
from flowbert.training.lightning_adapter import count_logged_steps
from flowbert.training.metrics_log import MetricsLog

_ASK_EVERY = 20  # batches after which several processes agree on the time


class AtomicCheckpointIO(TorchCheckpointIO):
    """Checkpoints that appear under their name complete or not at all, and are on the disk when they do."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        """Write a checkpoint."""
        if "://" in str(path):  # not a local file
            super().save_checkpoint(checkpoint, path, storage_options)
            return
        with written_atomically(path) as temporary:
            torch.save(checkpoint, temporary)


class LastCheckpoint(Checkpoint):
    """Keep ``last.ckpt``: after every epoch, now and then within one, and when a run is interrupted.

    Within an epoch it is written between two batches, when the step before is logged and validated and no gradient is
    waiting: a run that goes on from it logs and computes what it would have. An interruption in the middle of an
    optimizer step leaves the file before as it is.

    Args:
        every_n_steps: Write after so many optimizer steps; default: by time alone.
        every_n_minutes: Write after so many minutes; none: not by time.
        dirpath: Folder of the file.

    Raises:
        UserError: If a number is not above 0.
    """

    def __init__(
        self, every_n_steps: int | None = None, every_n_minutes: float | None = 10.0, dirpath: str | Path | None = None
    ) -> None:
        for name, value in (("every_n_steps", every_n_steps), ("every_n_minutes", every_n_minutes)):
            if value is not None and not value > 0:
                raise UserError(f"{name}: received {value}; allowed: above 0, or null")
        self.dirpath = dirpath
        self._every_n_steps = every_n_steps
        self._every_n_minutes = every_n_minutes
        self._saved = (0, time.monotonic())  # step and moment
        self._updated_by = 0  # number of the batch, from 1, that has begun to change the parameters
        self._between_batches = False

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Count from here."""
        del pl_module
        self._saved = trainer.global_step, time.monotonic()

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        """Write if it is time."""
        del pl_module, batch
        count_logged_steps(trainer)
        if batch_idx and batch_idx % trainer.accumulate_grad_batches == 0 and self._is_due(trainer, batch_idx):
            self._save(trainer, between_batches=True)

    def on_before_optimizer_step(self, trainer: Trainer, *_: Any) -> None:
        """From here on the batch at hand changes something."""
        progress: Any = trainer.fit_loop.epoch_loop.batch_progress
        self._updated_by = progress.total.ready

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Write; an epoch that is left early, by ``max_steps`` or an early stop, is not over."""
        del pl_module
        progress: Any = trainer.fit_loop.epoch_loop.batch_progress.current
        self._save(trainer, between_batches=progress.processed < trainer.num_training_batches)

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Write if the batch at hand has changed nothing yet; a training that diverged is not kept."""
        del pl_module
        progress: Any = trainer.fit_loop.epoch_loop.batch_progress
        total, current = progress.total, progress.current
        begun = self._updated_by == total.ready or total.processed > total.completed
        waiting = current.completed % trainer.accumulate_grad_batches  # gradients of batches before, half added to
        if trainer.training and total.ready and not (begun or waiting or isinstance(exception, UserError)):
            self._save(trainer, between_batches=True)

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Bring all logged rows to the disk first, and say how many there are."""
        del pl_module
        for logger in trainer.loggers:
            if isinstance(logger, MetricsLog):
                logger.save()
                checkpoint["metrics"] = {"rows": logger.count, "digest": logger.digest}
        if self._between_batches:
            # The batch at hand does not count yet, and the one before it is done with.
            loops = checkpoint["loops"]["fit_loop"]
            batches, epochs = loops["epoch_loop.batch_progress"], loops["epoch_progress"]
            for which in ("total", "current"):
                batches[which].update(dict.fromkeys(batches[which], batches[which]["completed"]))
                epochs[which]["processed"] = epochs[which]["completed"]
            batches["is_last_batch"] = False

    def _is_due(self, trainer: Trainer, batch_idx: int) -> bool:
        step, moment = self._saved
        if self._every_n_steps is not None and trainer.global_step - step >= self._every_n_steps:
            return True
        if self._every_n_minutes is None:
            return False
        due = time.monotonic() - moment >= 60 * self._every_n_minutes
        if trainer.world_size == 1:
            return due
        return batch_idx % _ASK_EVERY == 0 and bool(trainer.strategy.broadcast(due))

    def _save(self, trainer: Trainer, *, between_batches: bool = False) -> None:
        if self.dirpath is None or trainer.fast_dev_run:  # type: ignore[attr-defined]  # set by a connector
            return
        self._between_batches = between_batches
        try:
            trainer.save_checkpoint(Path(self.dirpath) / LAST)
        finally:
            self._between_batches = False
        self._saved = trainer.global_step, time.monotonic()


class BestCheckpoint(ModelCheckpoint):
    """The checkpoint with the best figure, also when a run goes on in another folder than it began in."""

    def __init__(self, dirpath: str | Path, monitor: str) -> None:
        super().__init__(
            dirpath=dirpath,
            filename="{epoch}-{step}",
            monitor=monitor,
            mode="max",
            save_on_train_epoch_end=False,
            enable_version_counter=False,  # a run that is resumed writes the same file again
        )

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over the best so far, from wherever it lies."""
        best = state_dict["best_model_path"]
        if best and not Path(best).is_file():
            warnings.warn(
                f"{best}, the best checkpoint so far, is not there any more: the best from here on is taken",
                FlowbertWarning,
                stacklevel=2,
            )
            return
        super().load_state_dict({**state_dict, "dirpath": self.dirpath})

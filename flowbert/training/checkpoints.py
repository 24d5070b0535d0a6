"""Checkpoints, from which a run resumes exactly."""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from pytorch_lightning import Trainer
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.plugins.io import TorchCheckpointIO

from flowbert.encoders import check_same_encoder, differing_keys
from flowbert.errors import UserError, first_line
from flowbert.io import write_atomically
from flowbert.options import CheckpointOptions


def read_checkpoint(path: str | Path) -> dict[str, Any]:
    """Read tensors and plain values of a checkpoint; pickled code is an error.

    Raises:
        UserError: If the file is missing, damaged, or not a checkpoint of flowbert.
    """
    path = Path(path)
    if not path.is_file():
        raise UserError(f"received {path}; no such file", argument="ckpt_path")
    # torch raises a dozen unrelated types for a file that it cannot read.
    try:
        content: Any = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise UserError(
            f"{path} is damaged, or holds more than tensors and plain values, which could run "
            f"code ({first_line(error)})",
            argument="ckpt_path",
        ) from error
    module = content.get("module") if isinstance(content, dict) else None
    if module is None or not isinstance(content.get("hyper_parameters"), dict):
        raise UserError(f"{path} is not a checkpoint of flowbert", argument="ckpt_path")
    return dict(content)


def check_fitted_on(
    saved: Mapping[str, Any], present: Mapping[str, Any], path: object
) -> None:
    """Compare encoder and corpus of a checkpoint with those of this run.

    Args:
        saved: ``encoder``, an identity, or None for vectors; ``corpus``, name and digest. Empty
            without a checkpoint, or if ``fit`` did not write it.
        present: The same entries of this run.
        path: Name of the checkpoint.

    Raises:
        UserError: If they differ.
    """
    if not saved:
        return
    encoders = saved["encoder"], present["encoder"]
    if None not in encoders:
        check_same_encoder(*encoders, f"checkpoint {path}")
    check_corpus(saved["corpus"], present["corpus"], path)


def check_corpus(
    saved: Mapping[str, Any],
    present: Mapping[str, Any],
    path: object = "the checkpoint",
) -> None:
    """Compare two corpora except for their names, see :func:`check_fitted_on`."""
    if set(differing_keys(saved, present)) - {"name"}:
        raise UserError(
            f"received {present['name']!r} for {path}, which was fitted on other sentences "
            f"or vectors ({saved['name']!r}); expected the same ones",
            argument="corpus",
        )


class AtomicCheckpointIO(TorchCheckpointIO):
    """Checkpoints that are written atomically."""

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None
    ) -> None:
        """Write a checkpoint under a temporary name and rename it.

        Raises:
            UserError: If it cannot be written, for example on a full disk.
        """
        try:
            # torch.save(path) does not say why a file cannot be written; Python's file does.
            with write_atomically(path) as temporary, temporary.open("wb") as file:
                torch.save(checkpoint, file)
        except (OSError, RuntimeError) as error:
            cause = error if isinstance(error, OSError) else error.__context__
            raise UserError(f"{path}: cannot be written ({cause or error})") from error


class _WithinEpochs(ModelCheckpoint):
    """A ModelCheckpoint by steps or time that does not save after the last batch of an epoch.

    Lightning 2.6 counts one epoch too few when it resumes from such a checkpoint.
    """

    def on_train_batch_end(self, trainer: Trainer, *args: Any, **kwargs: Any) -> None:
        if not trainer.fit_loop.epoch_loop.batch_progress.is_last_batch:
            super().on_train_batch_end(trainer, *args, **kwargs)


class BestCheckpoint(ModelCheckpoint):
    """A ModelCheckpoint of the best score so far, which a resumed run remembers.

    In another folder Lightning forgets the best score, so that the next score would be the best.
    """

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the best score and the path of its weights."""
        super().load_state_dict({**state_dict, "dirpath": self.dirpath})

    def best_weights(self, step: int) -> dict[str, Any] | None:
        """Weights of the best score of a training that ended at a step; None without a score.

        Raises:
            UserError: If the file was written at a later step: by another run, or by this one
                before it resumed from an earlier checkpoint.
        """
        if not self.best_model_path:
            return None
        content = read_checkpoint(self.best_model_path)
        if content["global_step"] > step:
            raise UserError(
                f"{self.best_model_path} is of step {content['global_step']}, but the "
                f"training ended at step {step}; expected its best weights up to that step",
                argument="ckpt_path",
            )
        return dict(content["state_dict"])


def checkpoint_callbacks(
    folder: str | Path, monitor: str | None = None, **options: Any
) -> list[ModelCheckpoint]:
    """Callbacks that keep ``last.ckpt``, and ``best.ckpt`` of the highest logged score.

    Args:
        folder: Where to write.
        monitor: Name of the score, compared after each validation; None for no ``best.ckpt``.
        **options: Fields of :class:`flowbert.options.CheckpointOptions`.

    Raises:
        UserError: If a number is not above 0.
    """
    chosen = CheckpointOptions(**options)
    last: dict[str, Any] = {
        "dirpath": folder,
        "filename": "last",
        "enable_version_counter": False,
    }
    callbacks = [
        ModelCheckpoint(**last, every_n_epochs=1, save_on_train_epoch_end=True)
    ]
    if (steps := chosen.every_n_steps) is not None:
        callbacks.append(_WithinEpochs(**last, every_n_train_steps=steps))
    if chosen.every_n_minutes is not None:
        interval = timedelta(minutes=chosen.every_n_minutes)
        callbacks.append(_WithinEpochs(**last, train_time_interval=interval))
    if monitor is not None:
        best = last | {"filename": "best", "monitor": monitor, "mode": "max"}
        callbacks.append(BestCheckpoint(**best, save_on_train_epoch_end=False))
    return callbacks

"""Run folders, and checkpoints from which a run resumes as if it had never stopped."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout
from pytorch_lightning import Trainer
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.plugins.io import TorchCheckpointIO

from flowbert.data.text_files import user_path
from flowbert.encoders import check_same_encoder, differing_keys
from flowbert.errors import UserError, first_line
from flowbert.io import write_atomically
from flowbert.numbers import Count, Positive
from flowbert.options import takes_options


def read_checkpoint(path: str | Path) -> dict[str, Any]:
    """Read a checkpoint: tensors and plain values; code in it is refused.

    Raises:
        UserError: If the file is missing, damaged, or no checkpoint of flowbert.
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
    saved: Mapping[str, Any], here: Mapping[str, Any], path: object
) -> None:
    """Compare what a checkpoint was fitted on, the encoder and the corpus, with what is given.

    Args:
        saved: ``encoder``, an identity, or None for vectors; ``corpus``, name and digest.
        here: The same of what is given.
        path: Name of the checkpoint.

    Raises:
        UserError: If they differ.
    """
    encoders = saved["encoder"], here["encoder"]
    if None not in encoders:
        check_same_encoder(*encoders, f"checkpoint {path}")
    check_corpus(saved["corpus"], here["corpus"], path)


def check_corpus(
    saved: Mapping[str, Any], here: Mapping[str, Any], path: object = "the checkpoint"
) -> None:
    """Compare all but the names of two corpora, see :func:`check_fitted_on`."""
    if set(differing_keys(saved, here)) - {"name"}:
        raise UserError(
            f"received {here['name']!r} for {path}, which was fitted on other sentences "
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
            UserError: If it cannot be written, as on a full disk.
        """
        try:
            # A file of Python's: torch's own does not say why it cannot be written.
            with write_atomically(path) as temporary, temporary.open("wb") as file:
                torch.save(checkpoint, file)
        except (OSError, RuntimeError) as error:
            cause = error if isinstance(error, OSError) else error.__context__
            raise UserError(f"{path}: cannot be written ({cause or error})") from error


class _WithinEpochs(ModelCheckpoint):
    """A ModelCheckpoint by steps or time that leaves the last batch to the end of the epoch.

    Lightning 2.6 resumes from a checkpoint of the last batch, but counts one epoch too few then.
    """

    def on_train_batch_end(self, trainer: Trainer, *args: Any, **kwargs: Any) -> None:
        if not trainer.fit_loop.epoch_loop.batch_progress.is_last_batch:
            super().on_train_batch_end(trainer, *args, **kwargs)


class BestCheckpoint(ModelCheckpoint):
    """A ModelCheckpoint of the best score so far, which a resumed run remembers.

    Lightning forgets the score in another folder: the next one, worse or not, would be the best.
    """

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the best score and where its weights are."""
        super().load_state_dict({**state_dict, "dirpath": self.dirpath})

    def best_weights(self, step: int) -> dict[str, Any] | None:
        """Weights of the best score of a training that ended at a step; None without any.

        Raises:
            UserError: If the file was written later: by another run, or by this one before it went
                on from an earlier checkpoint.
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


@takes_options
def checkpoint_callbacks(
    folder: str | Path,
    monitor: str | None = None,
    *,
    mode: str = "max",
    every_n_steps: Count | None = None,
    every_n_minutes: Positive | None = 10.0,
) -> list[ModelCheckpoint]:
    """Callbacks that keep ``last.ckpt``, and ``best.ckpt`` by a logged score.

    Args:
        folder: Where to write.
        monitor: Name of the score, looked at after each validation; None for no ``best.ckpt``.
        mode: ``max`` or ``min``.
        every_n_steps: Write ``last.ckpt`` also every this many optimizer steps.
        every_n_minutes: Write it also every this many minutes, besides the ends of epochs.

    Raises:
        UserError: If a number is not above 0.
    """
    last: dict[str, Any] = {
        "dirpath": folder,
        "filename": "last",
        "enable_version_counter": False,
    }
    callbacks = [
        ModelCheckpoint(**last, every_n_epochs=1, save_on_train_epoch_end=True)
    ]
    if every_n_steps is not None:
        callbacks.append(_WithinEpochs(**last, every_n_train_steps=every_n_steps))
    if every_n_minutes is not None:
        interval = timedelta(minutes=every_n_minutes)
        callbacks.append(_WithinEpochs(**last, train_time_interval=interval))
    if monitor is not None:
        best = last | {"filename": "best", "monitor": monitor, "mode": mode}
        callbacks.append(BestCheckpoint(**best, save_on_train_epoch_end=False))
    return callbacks


RUN_CONFIG = "config.yaml"
"""The file of a run folder with the options of its fit."""

# A folder with one of them is refused. That of a fit without a checkpoint may be used again.
_WRITTEN = ("checkpoints", "predictions.npy")
_LOCK = ".lock"
CHECKPOINTS = ("last", "best")
"""Names of a run's checkpoints."""


def new_folder(method: str) -> Path:
    """A folder for a run that is given none: ``runs/METHOD/TIME``, to the microsecond."""
    time = datetime.now().strftime("%Y%m%d-%H%M%S-%f")
    return Path("runs") / method.split(":")[0] / time


def find_checkpoint(name: str | Path, run: str | Path | None) -> Path:
    """The checkpoint of a name: ``last`` or ``best`` of a run, as Lightning has them, or a path.

    Args:
        name: The name or path.
        run: The run folder.

    Raises:
        UserError: If there is no such run or checkpoint.
    """
    if name not in CHECKPOINTS:
        return user_path(name)
    folder = user_path(run or ".") / "checkpoints"
    path = folder / f"{name}.ckpt"
    if not path.is_file():
        files = ", ".join(sorted(file.stem for file in folder.glob("*.ckpt")))
        raise UserError(
            argument="ckpt_path",
            received=name,
            expected=f"one that {folder} has ({files or 'none'}), or the path of one",
        )
    return path


@contextmanager
def claim_folder(
    path: Path, ckpt_path: str | Path | None = None, resumable: bool = False
) -> Iterator[None]:
    """Hold a folder for one run.

    One process claims it, the first of several; the others get its path from Lightning, by the
    strategy's broadcast. The operating system frees the lock of a process that ends in any way, so
    a killed run blocks nobody; what it left behind is refused until that run is resumed. After an
    error before the training nothing is left.

    Args:
        path: The folder; it is made, or exists without anything of another run.
        ckpt_path: Checkpoint that a fit resumes from. One inside of the folder is of the run there.
        resumable: Whether a run in the folder could be resumed, for the message.

    Raises:
        UserError: If another process writes there, or the folder holds anything of another run, or
            cannot be made. Nothing has been written then.
    """
    made = [each for each in (path, *path.parents) if not each.exists()]
    lock = FileLock(path / _LOCK)
    try:
        path.mkdir(parents=True, exist_ok=True)
        lock.acquire(blocking=False)
    except Timeout as error:
        raise UserError(
            f"another run writes into {path}; expected another folder",
            argument="run_dir",
        ) from error
    except OSError as error:
        raise UserError(
            f"{path} cannot be written ({error.strerror})", argument="run_dir"
        ) from error
    try:
        was_empty = {file.name for file in path.iterdir()} <= {_LOCK}
        _check_unused(path, ckpt_path, resumable)
        yield
    except BaseException:
        names = {file.name for file in path.iterdir()}
        if was_empty and names <= {RUN_CONFIG, _LOCK}:
            (path / RUN_CONFIG).unlink(missing_ok=True)
        _release(lock)
        for folder in made:  # those that are empty
            with suppress(OSError):
                folder.rmdir()
        raise
    _release(lock)


def _release(lock: FileLock) -> None:
    with suppress(OSError):
        Path(lock.lock_file).unlink(missing_ok=True)
    lock.release(force=True)


def _check_unused(path: Path, ckpt_path: str | Path | None, resumable: bool) -> None:
    """Raise a UserError for what another run has left."""
    if (path / "results.json").exists():
        raise UserError(
            f"{path} holds a finished run; expected another folder", argument="run_dir"
        )
    found = [name for name in _WRITTEN if (path / name).exists()]
    checkpoint = Path(ckpt_path or "").resolve()
    if not found or (ckpt_path and checkpoint.is_relative_to(path.resolve())):
        return
    message = f"{path} holds {', '.join(found)} of another run; expected another folder"
    if resumable and (path / "checkpoints" / "last.ckpt").is_file():
        message += (
            ", or to resume that run: ckpt_path='last', on the command line "
            f"--resume {path}"
        )
    raise UserError(message, argument="run_dir")

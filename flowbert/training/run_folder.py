"""Run folders: names, checkpoints, and a lock that lets one process write."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from filelock import FileLock, Timeout
from lightning_fabric.plugins.environments.lightning import LightningEnvironment
from lightning_fabric.utilities.rank_zero import rank_zero_only

from flowbert.data.text_files import user_path
from flowbert.errors import UserError

RUN_CONFIG = "config.yaml"
"""The file of a run folder with the options of its fit."""

# A folder with one of these files is refused; a fit that wrote no checkpoint leaves none.
_WRITTEN = ("checkpoints", "predictions.npy")
_LOCK = ".lock"
_NAMES = ("last", "best")  # of checkpoints in a run folder


def new_folder(method: str) -> Path:
    """Default folder of a run: ``runs/METHOD/TIME``, with microseconds."""
    time = datetime.now().strftime("%Y%m%d-%H%M%S-%f")
    return Path("runs") / method.split(":")[0] / time


def find_checkpoint(name: str | Path, run: str | Path | None) -> Path:
    """The path of a checkpoint: of ``last`` or ``best`` in a run folder, or the path itself."""
    if name not in _NAMES:
        return user_path(name)
    return user_path(run or ".") / "checkpoints" / f"{name}.ckpt"


def is_first_process() -> bool:
    """Whether this is the first process, by the environment variables of the launcher."""
    is_first = rank_zero_only.rank == 0  # type: ignore[attr-defined]
    return is_first and LightningEnvironment().node_rank() == 0


@contextmanager
def claim_folder(
    path: Path, ckpt_path: str | Path | None = None, resumable: bool = False
) -> Iterator[None]:
    """Lock a folder for one run.

    With several processes, the first one locks the folder, and Lightning broadcasts the path to the
    others. The operating system releases the lock when the process ends, also after a kill;
    another run in the folder is then an error unless it resumes. An error before the training
    leaves no files.

    Args:
        path: The folder, new or without files of another run.
        ckpt_path: Checkpoint that a fit resumes from; if it is in the folder, its run continues.
        resumable: Whether a run in the folder could be resumed, for the message.

    Raises:
        UserError: If another process writes into the folder, or it has files of another run, or
            cannot be created. Nothing has been written then.
    """
    created = [folder for folder in (path, *path.parents) if not folder.exists()]
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
        for folder in created:  # rmdir removes the empty ones
            with suppress(OSError):
                folder.rmdir()
        raise
    _release(lock)


def _release(lock: FileLock) -> None:
    with suppress(OSError):
        Path(lock.lock_file).unlink(missing_ok=True)
    lock.release(force=True)


def _check_unused(path: Path, ckpt_path: str | Path | None, resumable: bool) -> None:
    """Raise a UserError for files of another run."""
    if (path / "results.json").exists():
        raise UserError(
            f"{path} holds a finished run; expected another folder", argument="run_dir"
        )
    written = [name for name in _WRITTEN if (path / name).exists()]
    checkpoint = Path(ckpt_path or "").resolve()
    if not written or (ckpt_path and checkpoint.is_relative_to(path.resolve())):
        return
    message = (
        f"{path} holds {', '.join(written)} of another run; expected another folder"
    )
    if resumable and (path / "checkpoints" / "last.ckpt").is_file():
        message += (
            ", or to resume that run: ckpt_path='last', on the command line "
            f"--resume {path}"
        )
    raise UserError(message, argument="run_dir")

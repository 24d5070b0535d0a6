"""The folder of a run, which one process claims and no other run writes into."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from filelock import FileLock, Timeout

from flowbert.errors import UserError

RUN_CONFIG = "config.yaml"
"""The file of a run folder with the options of its fit."""

# One of them is in every folder of a run.
_WRITTEN = ("checkpoints", RUN_CONFIG, "predictions.npy")
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
        return Path(name)
    folder = None if run is None else Path(run) / "checkpoints"
    if folder is None or not folder.is_dir():
        raise UserError(
            f"received {name!r} of no run; expected a run folder with checkpoints, or the path "
            "of one",
            argument="ckpt_path",
        )
    path = folder / f"{name}.ckpt"
    if not path.is_file():
        files = ", ".join(sorted(file.stem for file in folder.glob("*.ckpt")))
        raise UserError(
            argument="ckpt_path",
            received=name,
            expected=f"one that {folder} has ({files or 'it is empty'})",
        )
    return path


@contextmanager
def claimed(
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
    if path.exists() and not path.is_dir():
        raise UserError(f"{path} is a file; expected a folder", argument="run_dir")
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
    if not found or (ckpt_path is not None and _holds(path, ckpt_path)):
        return
    message = f"{path} holds {', '.join(found)} of another run; expected another folder"
    if resumable and (path / "checkpoints" / "last.ckpt").is_file():
        message += f", or to resume that run, as with --resume {path}"
    raise UserError(message, argument="run_dir")


def _holds(folder: Path, ckpt_path: str | Path) -> bool:
    return Path(ckpt_path).resolve().is_relative_to(folder.resolve())

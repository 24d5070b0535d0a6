"""The folder of a run, which one process claims and no other run writes into."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from filelock import FileLock, Timeout

from flowbert.errors import UserError

_CONFIG = "config.yaml"
# What a run writes into its folder.
_WRITTEN = (
    "analysis.json",
    "checkpoints",
    _CONFIG,
    "figures",
    "hparams.yaml",
    "lightning_logs",
    "metrics*.csv",
    "model",
    "predictions.npy",
    "report.html",
    "results.csv",
    "results.json",
    "results.records",
    "tensorboard",
    "wandb",
)
_LOCK = ".lock"
_NAMED = ("last", "best")


def new_folder(method: str) -> Path:
    """A folder for a run that is given none: ``runs/METHOD/TIME``, to the microsecond."""
    time = datetime.now().strftime("%Y%m%d-%H%M%S-%f")
    return Path("runs") / method.split(":")[0] / time


def find_checkpoint(name: str | Path, folders: Sequence[str | Path | None]) -> Path:
    """The checkpoint of a name: ``last`` or ``best`` of a run, as Lightning has them, or a path.

    Args:
        name: The name or path.
        folders: Run folders to look in, the first with checkpoints; None for none.

    Raises:
        UserError: If there is no such run or checkpoint.
    """
    if name not in _NAMED:
        return Path(name)
    runs = [Path(folder) / "checkpoints" for folder in folders if folder is not None]
    found = next((folder for folder in runs if folder.is_dir()), None)
    if found is None:
        raise UserError(
            f"received {name!r} of no run; expected a run_dir with checkpoints, or the path of one",
            argument="ckpt_path",
        )
    path = found / f"{name}.ckpt"
    if not path.is_file():
        files = ", ".join(sorted(file.stem for file in found.glob("*.ckpt")))
        raise UserError(
            argument="ckpt_path",
            received=name,
            expected=f"one that {found} has ({files or 'it is empty'})",
        )
    return path


def command_folder(
    command: str, folder: str | Path, ckpt_path: str | Path | None
) -> Path:
    """Where a command writes: its folder, but into one inside of it after a fit of that folder.

    Example:
        >>> command_folder("test", "runs/a", "runs/a/checkpoints/best.ckpt").as_posix()
        'runs/a/test'
    """
    folder = Path(folder)
    is_own = ckpt_path is not None and _holds(folder, ckpt_path)
    return folder / command if command != "fit" and is_own else folder


class RunFolder:
    """A folder that holds this run alone, as a context.

    One process claims it, the first of several; the others get its path from Lightning, by the
    strategy's broadcast. The operating system frees the lock of a process that ends in any way, so
    a killed run blocks nobody; what it left behind is refused until that run is resumed.

    Args:
        path: The folder; it is made, or exists without anything of another run.
        ckpt_path: Checkpoint that a fit resumes from. One inside of the folder is of the run there.
        resumable: Whether a run in the folder could be resumed, for the message.

    Raises:
        UserError: If another process writes there, or the folder holds anything of another run, or
            cannot be made. Nothing has been written then.
    """

    def __init__(
        self, path: Path, ckpt_path: str | Path | None = None, resumable: bool = False
    ) -> None:
        self.path = path
        if path.exists() and not path.is_dir():
            raise UserError(f"{path} is a file; expected a folder", argument="run_dir")
        self._made = [each for each in (path, *path.parents) if not each.exists()]
        try:
            # Of two processes one makes it; the other finds its lock or its files.
            with suppress(FileExistsError):
                path.mkdir(parents=True, exist_ok=False)
            self._lock = FileLock(path / _LOCK)
            self._lock.acquire(blocking=False)
        except Timeout as error:
            raise UserError(
                f"another run writes into {self.path}; expected another folder",
                argument="run_dir",
            ) from error
        except OSError as error:
            raise UserError(
                f"{path} cannot be written ({error.strerror})", argument="run_dir"
            ) from error
        self._was_empty = {file.name for file in path.iterdir()} <= {_LOCK}
        try:
            self._check(ckpt_path, resumable)
        except UserError:
            self._abandon()
            raise

    def __enter__(self) -> "RunFolder":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Let other runs claim the folder; after an error nothing empty is left."""
        if kind is None:
            self._release()
        else:
            self._abandon()

    def _release(self) -> None:
        with suppress(OSError):
            (self.path / _LOCK).unlink(missing_ok=True)
        self._lock.release(force=True)

    def _abandon(self) -> None:
        """Remove what a run wrote before it failed, if it began no training."""
        names = {file.name for file in self.path.iterdir()}
        if self._was_empty and names <= {_CONFIG, _LOCK}:
            (self.path / _CONFIG).unlink(missing_ok=True)
        self._release()
        for folder in self._made:
            with suppress(OSError):
                folder.rmdir()

    def _check(self, ckpt_path: str | Path | None, resumable: bool) -> None:
        """Look for what another run has left."""
        if (self.path / "results.json").exists():
            raise UserError(
                f"{self.path} holds a finished run; expected another folder",
                argument="run_dir",
            )
        found = sorted(
            file.name for pattern in _WRITTEN for file in self.path.glob(pattern)
        )
        if not found or (ckpt_path is not None and _holds(self.path, ckpt_path)):
            return
        message = f"{self.path} holds {', '.join(found)} of another run; expected another folder"
        last = self.path / "checkpoints" / "last.ckpt"
        if resumable and last.is_file():
            message += ", or the ckpt_path last to resume that run"
        raise UserError(message, argument="run_dir")


def _holds(folder: Path, ckpt_path: str | Path) -> bool:
    return Path(ckpt_path).resolve().is_relative_to(folder.resolve())

"""The folder of a run, which one process claims and no other run writes into."""

from contextlib import suppress
from datetime import datetime
from pathlib import Path

from filelock import FileLock, Timeout

from flowbert.errors import UserError

# What a run writes into its folder.
_WRITTEN = (
    "analysis.json",
    "checkpoints",
    "config.yaml",
    "figures",
    "hparams.yaml",
    "lightning_logs",
    "metrics*.csv",
    "model",
    "predictions.npy",
    "report.html",
    "results.csv",
    "results.json",
    "tensorboard",
    "wandb",
)
_LOCK = ".lock"


def new_folder(method: str) -> Path:
    """A folder for a run that is given none: ``runs/METHOD/TIME``, to the microsecond."""
    time = datetime.now().strftime("%Y%m%d-%H%M%S-%f")
    return Path("runs") / method.split(":")[0] / time


class RunFolder:
    """A folder that holds this run alone.

    The operating system frees the lock of a process that ends in any way, so a killed run blocks
    nobody; what it left behind is refused until it is gone on with.

    Args:
        path: The folder.
        ckpt_path: Checkpoint that a fit goes on from. One inside of the folder is of the run there.
        goes_on: Whether a run in the folder could be gone on with, for the message.

    Raises:
        UserError: If another process writes there, or the folder holds anything of another run, or
            cannot be made. Nothing has been written then.
    """

    def __init__(
        self, path: Path, ckpt_path: str | Path | None = None, goes_on: bool = False
    ) -> None:
        self.path = path
        if path.exists() and not path.is_dir():
            raise UserError(f"{path} is a file; expected a folder", argument="run_dir")
        self._made = [each for each in (path, *path.parents) if not each.exists()]
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._lock = FileLock(path / _LOCK)
            self.hold()
        except OSError as error:
            raise UserError(
                f"{path} cannot be written ({error.strerror})", argument="run_dir"
            ) from error
        try:
            self._check(ckpt_path, goes_on)
        except UserError:
            self.abandon()
            raise

    def hold(self) -> None:
        """Claim the folder, if this run does not hold it already.

        Raises:
            UserError: If another one does.
        """
        try:
            self._lock.acquire(blocking=False)
        except Timeout as error:
            raise UserError(
                f"another run writes into {self.path}; expected another folder",
                argument="run_dir",
            ) from error

    def release(self) -> None:
        """Let other runs claim the folder."""
        with suppress(OSError):
            (self.path / _LOCK).unlink(missing_ok=True)
        self._lock.release(force=True)

    def abandon(self) -> None:
        """Release the folder, and remove it if it was made by this run and is empty."""
        self.release()
        for folder in self._made:
            with suppress(OSError):
                folder.rmdir()

    def _check(self, ckpt_path: str | Path | None, goes_on: bool) -> None:
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
        if goes_on and last.is_file():
            message += f", or ckpt_path={last} to go on with that run"
        raise UserError(message, argument="run_dir")


def _holds(folder: Path, ckpt_path: str | Path) -> bool:
    return Path(ckpt_path).resolve().is_relative_to(folder.resolve())

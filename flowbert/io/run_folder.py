"""Where everything of a run lies, and the rule that a finished run is never overwritten."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Self

from flowbert.errors import UserError

_SHARED = "FLOWBERT_RUN_DIR"  # processes that Lightning starts for DDP must not each choose their own folder


@dataclass(frozen=True)
class RunFolder:
    """The folder of one ``fit``, ``validate``, ``test`` or ``predict``.

    Args:
        path: The folder.

    Example:
        >>> run = RunFolder(Path("runs/first"))
        >>> str(run.results), str(run.fitted_map("flow"))
        ('runs/first/results.json', 'runs/first/model/flow.safetensors')
    """

    path: Path

    @classmethod
    def choose(cls, run_dir: str | Path | None = None, config: str | Path | None = None) -> Self:
        """Choose the folder of a new run, or of one that goes on; processes started for it are told by the environment.

        Args:
            run_dir: What the user asked for; default: ``runs/<name of the config>/<time>``.
            config: The config file.

        Raises:
            UserError: If the folder holds a finished run, or is a file.
        """
        inherited = os.environ.get(_SHARED) if "LOCAL_RANK" in os.environ else None
        if inherited is not None:
            return cls(Path(inherited))
        if run_dir is None and "LOCAL_RANK" in os.environ:
            raise UserError("run_dir: received nothing under torchrun; allowed: a folder, so that all processes agree")
        time, name = datetime.now().strftime("%Y%m%d-%H%M%S"), Path(config).stem if config else "run"
        run = cls(Path(run_dir) if run_dir else Path("runs") / name / time)
        if run.path.exists() and not run.path.is_dir():
            raise UserError(f"run_dir: {run.path} is a file; allowed: a new or unfinished run folder")
        if run.results.exists():
            raise UserError(
                f"run_dir: {run.path} holds a finished run ({run.results.name}); allowed: another or a new folder"
            )
        os.environ[_SHARED] = str(run.path.resolve())
        return run

    @classmethod
    def of_checkpoint(cls, checkpoint: str | Path) -> Self:
        """The run that wrote a checkpoint, ``RUN/checkpoints/NAME.ckpt``."""
        return cls(Path(checkpoint).resolve().parents[1])

    @property
    def config(self) -> Path:
        """The options of the run, which can be run again."""
        return self.path / "config.yaml"

    @property
    def metrics(self) -> Path:
        """What was logged while the run went on."""
        return self.path / "metrics.csv"

    @property
    def results(self) -> Path:
        """The figures at the end: a run that has them is finished."""
        return self.path / "results.json"

    @property
    def predictions(self) -> Path:
        """The embeddings that ``predict`` writes."""
        return self.path / "predictions.npy"

    @property
    def checkpoints(self) -> Path:
        """Folder of the checkpoints."""
        return self.path / "checkpoints"

    @property
    def model(self) -> Path:
        """Folder of what was fitted."""
        return self.path / "model"

    @property
    def encoder(self) -> Path:
        """Folder of the encoder that was trained, as transformers loads it."""
        return self.model / "encoder"

    @property
    def encoder_identity(self) -> Path:
        """Which encoder the fitted maps belong to."""
        return self.model / "encoder.json"

    def fitted_map(self, name: str) -> Path:
        """File of a fitted map of embeddings: ``flow``, ``whitening``."""
        return self.model / f"{name}.safetensors"

    def fitted_maps(self) -> list[str]:
        """Names of the fitted maps that are there."""
        return sorted(path.stem for path in self.model.glob("*.safetensors"))


@contextmanager
def run_folder_shared() -> Iterator[None]:
    """What :meth:`RunFolder.choose` tells other processes holds for the run inside alone."""
    before = os.environ.get(_SHARED)
    try:
        yield
    finally:
        os.environ.pop(_SHARED, None)
        if before is not None:
            os.environ[_SHARED] = before

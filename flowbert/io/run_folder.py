"""Where everything of a run lies, and the rule that a finished run is never overwritten."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Self

from flowbert.errors import UserError
from flowbert.io.hub import fetch, is_hub_name, split_revision

LAST = "last.ckpt"
"""The checkpoint that a run goes on from."""
_SHARED = "FLOWBERT_RUN_DIR"  # processes that Lightning starts for DDP must not each choose their own folder
_ON_HUB = ("*.json", "*.txt", "*.model", "*.counts", "*.safetensors", "model/*", "model/encoder/*")  # of any model


class RunFolder:
    """The folder of one ``fit``, ``validate``, ``test`` or ``predict``.

    Args:
        path: The folder.

    Attributes:
        path: The folder.
        config: The options of the run, which can be run again.
        metrics: What was logged while the run went on.
        results: The figures at the end: a run that has them is finished.
        report: The page to look at.
        figures: Folder of its pictures, with their data.
        analysis: What was found in the embeddings, for the page.
        predictions: The embeddings that ``predict`` writes.
        checkpoints: Folder of the checkpoints.
        model: Folder of what was fitted.
        encoder: Folder of the encoder that was trained, as transformers loads it.
        encoder_identity: Which encoder the fitted maps belong to.
        token_counts: What its pooling weighs tokens by, if it does.

    Example:
        >>> run = RunFolder("runs/first")
        >>> str(run.results), str(run.fitted_map("flow"))
        ('runs/first/results.json', 'runs/first/model/flow.safetensors')
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.config = self.path / "config.yaml"
        self.metrics = self.path / "metrics.csv"
        self.results = self.path / "results.json"
        self.report = self.path / "report.html"
        self.figures = self.path / "figures"
        self.analysis = self.path / "analysis.json"
        self.predictions = self.path / "predictions.npy"
        self.checkpoints = self.path / "checkpoints"
        self.model = self.path / "model"
        self.encoder = self.model / "encoder"
        self.encoder_identity = self.model / "encoder.json"
        self.token_counts = self.model / "tokens.counts"

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
            return cls(inherited)
        if run_dir is None and "LOCAL_RANK" in os.environ:
            raise UserError("run_dir: received nothing under torchrun; allowed: a folder, so that all processes agree")
        time, name = datetime.now().strftime("%Y%m%d-%H%M%S"), Path(config).stem if config else "run"
        run = cls(run_dir or Path("runs") / name / time)
        if run.path.exists() and not run.path.is_dir():
            raise UserError(f"run_dir: {run.path} is a file; allowed: a new or unfinished run folder")
        if run.results.exists():
            raise UserError(
                f"run_dir: {run.path} holds a finished run ({run.results.name}); allowed: another or a new folder"
            )
        os.environ[_SHARED] = str(run.path.resolve())
        return run

    @classmethod
    def find(cls, run: str | Path, files: Sequence[str] = _ON_HUB) -> Self:
        """The run folder or exported model at a path, or of that name on the hub: ``owner/name``, ``owner/name@v1``.

        Args:
            run: Path or name.
            files: Patterns of what is fetched from the hub, for each depth of folders; default: all of a model.

        Raises:
            UserError: If there is none.
        """
        path = Path(run).expanduser()
        if path.is_dir():
            return cls(path)
        name, revision = split_revision(str(run))
        if path.exists() or not is_hub_name(name):
            raise UserError(f"{run}: no such folder; allowed: the run folder of a finished `fit`, or a hub name")
        return cls(fetch(name, revision, lambda _: files, "model")[0])

    @classmethod
    def of_checkpoint(cls, checkpoint: str | Path) -> Self:
        """The run that wrote a checkpoint, ``RUN/checkpoints/NAME.ckpt``."""
        return cls(Path(checkpoint).resolve().parents[1])

    def fitted_map(self, name: str) -> Path:
        """File of a fitted map of embeddings: ``flow``, ``whitening``."""
        return self.model / f"{name}.safetensors"

    def scale(self, name: str) -> Path:
        """File of the ranges that int8 vectors under a map are scaled by."""
        return self.model / f"{name}.int8"

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

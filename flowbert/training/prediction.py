"""Predictions in one .npy file, whatever the number of processes."""

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.format import open_memmap
from pytorch_lightning import LightningModule, Trainer
from pytorch_lightning.callbacks import BasePredictionWriter

from flowbert.io import follow_link


class VectorWriter(BasePredictionWriter):
    """Write the vectors of ``Trainer.predict`` in the order of the data, ``(N, k)``, float32.

    Every process writes its rows into one file, on a disk that all of them share.

    Args:
        path: The file, ending in .npy.
        shape: ``(N, k)``.
    """

    def __init__(self, path: str | Path, shape: tuple[int, int]) -> None:
        super().__init__("batch")
        self.path = follow_link(path)
        self.shape = shape

    @property
    def _temporary(self) -> Path:
        return self.path.with_name(f".{self.path.stem}.partial.npy")

    def on_predict_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Make the file."""
        self.path = Path(trainer.strategy.broadcast(str(self.path)))
        if trainer.is_global_zero:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            open_memmap(self._temporary, "w+", np.float32, self.shape)
        trainer.strategy.barrier()
        self._rows: Any = open_memmap(self._temporary, "r+")

    def write_on_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        prediction: Any,
        batch_indices: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int,
    ) -> None:
        """Write the rows of a batch."""
        self._rows[np.asarray(batch_indices)] = prediction.float().cpu().numpy()

    def on_predict_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Rename the file when all processes have written."""
        self._rows.flush()
        trainer.strategy.barrier()
        if trainer.is_global_zero:
            os.replace(self._temporary, self.path)
        trainer.strategy.barrier()

    def on_exception(
        self, trainer: Trainer, pl_module: LightningModule, exception: BaseException
    ) -> None:
        """Remove the unfinished file."""
        self._temporary.unlink(missing_ok=True)

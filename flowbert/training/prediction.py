"""Predictions in one .npy file, also of several processes."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.format import open_memmap
from pytorch_lightning import LightningModule, Trainer
from pytorch_lightning.callbacks import BasePredictionWriter

from flowbert.io import write_atomically
from flowbert.vectors.write import make_npy


class VectorWriter(BasePredictionWriter):
    """Write the vectors of ``Trainer.predict`` in the order of the data, ``(N, k)``, float32.

    All processes write into one file, on a shared disk.

    Args:
        path: The file, ending in .npy.
        shape: ``(N, k)``.
    """

    def __init__(self, path: str | Path, shape: tuple[int, int]) -> None:
        super().__init__("batch")
        self.path = path
        self.shape = shape
        self._unfinished = ExitStack()

    def on_predict_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Make the file."""
        file: Any = None
        if trainer.is_global_zero:
            file = self._unfinished.enter_context(write_atomically(self.path))
            make_npy(file, np.float32, self.shape)
        # The others wait for its name.
        file = trainer.strategy.broadcast(file)
        self._rows: Any = open_memmap(file, "r+")

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
        self._unfinished.close()
        trainer.strategy.barrier()

    def on_exception(
        self, trainer: Trainer, pl_module: LightningModule, exception: BaseException
    ) -> None:
        """Remove the unfinished file."""
        self._unfinished.__exit__(type(exception), exception, None)

"""Predictions in one .npy file, whatever the number of processes."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.lib.format import open_memmap
from pytorch_lightning import LightningModule, Trainer
from pytorch_lightning.callbacks import BasePredictionWriter
from torch import Tensor
from torch.utils.data import DataLoader

from flowbert.io import follow_link
from flowbert.training.trainer import check_processes, quiet_lightning

_PREDICTED_AT_ONCE = 1024


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


class _ModelModule(LightningModule):
    """A model as a module, whose encoder Lightning moves to the device of the process."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.encoder = model.encoder
        self.model = model

    def predict_step(self, batch: list[str], batch_idx: int) -> Tensor:
        return torch.from_numpy(self.model.embed(batch))


def predict_vectors(
    model: Any,
    texts: Sequence[str],
    path: str | Path,
    accelerator: str,
    devices: int,
    num_nodes: int = 1,
) -> tuple[int, int]:
    """Write the vectors of a :class:`flowbert.Model`, encoded on several devices.

    Args:
        model: The model.
        texts: N sentences.
        path: The file, ending in .npy, which all processes reach.
        accelerator: Lightning's accelerator.
        devices: Number of devices of a machine.
        num_nodes: Number of machines.

    Returns:
        Shape of the vectors.
    """
    shape = len(texts), model.dim
    sentences: Any = list(texts)
    with quiet_lightning():
        trainer = Trainer(
            accelerator=accelerator,
            devices=devices,
            num_nodes=num_nodes,
            logger=False,
            enable_model_summary=False,
            enable_progress_bar=False,
            callbacks=[VectorWriter(path, shape)],
        )
        check_processes(trainer)
        loader: DataLoader[Any] = DataLoader(sentences, _PREDICTED_AT_ONCE)
        trainer.predict(_ModelModule(model), loader, return_predictions=False)
    return shape

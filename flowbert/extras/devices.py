"""Vectors of a model computed on several devices and machines."""

from collections.abc import Sequence
from typing import Any

import torch
from pytorch_lightning import LightningModule, Trainer
from torch import Tensor
from torch.utils.data import DataLoader

from flowbert.options import EncodeOptions
from flowbert.training.prediction import VectorWriter
from flowbert.training.trainer import quiet_lightning

_PREDICTED_AT_ONCE = 1024


class _ModelModule(LightningModule):
    """A model as a module, whose encoder Lightning moves to the device of the process."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.encoder = model.encoder
        self.model = model

    def predict_step(self, batch: list[str], batch_idx: int) -> Tensor:
        return torch.from_numpy(self.model.embed(batch))


def predict_vectors(
    model: Any, texts: Sequence[str], options: EncodeOptions, accelerator: str
) -> tuple[int, int]:
    """Write the vectors of a :class:`flowbert.Model`, encoded on several devices.

    Args:
        model: The model.
        texts: N sentences.
        options: Numbers of devices and machines, and the file, on a disk that all share.
        accelerator: Lightning's accelerator.

    Returns:
        Shape of the vectors.
    """
    shape = len(texts), model.dim
    sentences: Any = list(texts)
    with quiet_lightning():
        trainer = Trainer(
            accelerator=accelerator,
            devices=options.devices,
            num_nodes=options.num_nodes,
            logger=False,
            enable_model_summary=False,
            enable_progress_bar=False,
            callbacks=[VectorWriter(str(options.output), shape)],
        )
        loader: DataLoader[Any] = DataLoader(sentences, _PREDICTED_AT_ONCE)
        trainer.predict(_ModelModule(model), loader, return_predictions=False)
    return shape

"""Fit a flow on a tensor of embeddings: the library's way in, no encoder and no files."""

import tempfile
from typing import Any

import numpy.typing as npt
import torch
from pytorch_lightning import LightningDataModule, Trainer
from torch import Tensor
from torch.utils.data import DataLoader

from flowbert.calibration.few_rows import DistinctRows
from flowbert.datamodules.batches import BatchSampler, TrainingLoader
from flowbert.errors import UserError
from flowbert.modules.flow import FlowModule
from flowbert.notices import quiet_lightning
from flowbert.seeding import Stream


class _TensorData(LightningDataModule):
    """Embeddings in memory, with the start sample that FlowModule asks for."""

    def __init__(self, embeddings: Tensor, batch_size: int, start_size: int, seed: int) -> None:
        super().__init__()
        self._embeddings = embeddings
        self._batch_size = batch_size
        self._start_size = start_size
        self._seed = seed

    def distinct_examples(self) -> int:
        return int(DistinctRows(self._embeddings.shape[1] + 1).update(self._embeddings))

    def start_sample(self) -> Tensor:
        order = Stream(self._seed, "start sample").rng().permutation(len(self._embeddings))
        return self._embeddings[order[: self._start_size]]

    def train_dataloader(self) -> DataLoader[Any]:
        sampler = BatchSampler([0] * len(self._embeddings), self._batch_size, 1, self._seed)
        return TrainingLoader(lambda _, rows: self._embeddings[rows].numpy(), sampler, lambda: (0, 0))


def fit_flow(
    embeddings: Tensor | npt.NDArray[Any],
    *,
    epochs: int = 3,
    batch_size: int = 64,
    start_size: int = 1024,
    seed: int = 0,
    accelerator: str = "auto",
    progress: bool = False,
    **options: Any,
) -> FlowModule:
    """Fit a flow on embeddings by maximum likelihood, with the recipe of ``configs/flow_target.yaml``.

    Args:
        embeddings: Shape ``(N, D)``, one row per sentence, every occurrence counted.
        epochs: Passes over the embeddings.
        batch_size: Rows per step.
        start_size: Rows that drive the data-dependent start.
        seed: Seed of the flow's start, the shuffling and the noise.
        accelerator: Lightning's name of the device: ``auto``, ``cpu``, ``gpu``.
        progress: Whether to show a progress bar.
        **options: Arguments of :class:`flowbert.modules.FlowModule`, such as ``mixing`` or ``noise``.

    Returns:
        The fitted module; ``module.embed(x)`` gives latents, ``module.flow`` is the flow itself.

    Raises:
        UserError: If the embeddings are not a finite ``(N, D)`` with N at least 2, or an option is not allowed.

    Example:
        >>> x = torch.randn(256, 8, generator=torch.Generator().manual_seed(0)) * 5 + 3
        >>> fit_flow(x, epochs=1, accelerator="cpu").embed(x).shape
        torch.Size([256, 8])
    """
    rows = torch.as_tensor(embeddings, dtype=torch.float32)
    if rows.ndim != 2 or len(rows) < 2:
        raise UserError(f"fit_flow: received embeddings of shape {tuple(rows.shape)}; allowed: (N, D), N at least 2")
    module = FlowModule(rows.shape[1], seed=seed, **options)
    with tempfile.TemporaryDirectory() as scratch, quiet_lightning():
        trainer = Trainer(
            max_epochs=epochs,
            accelerator=accelerator,
            devices=1,
            gradient_clip_val=1.0,
            logger=False,
            enable_checkpointing=False,
            enable_model_summary=False,
            enable_progress_bar=progress,
            default_root_dir=scratch,
        )
        with torch.random.fork_rng():
            trainer.fit(module, datamodule=_TensorData(rows, batch_size, start_size, seed))
    return module.eval()

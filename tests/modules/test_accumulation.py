"""Accumulated gradients, and devices: the same fit another way."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pytorch_lightning import LightningDataModule, Trainer
from torch.utils.data import DataLoader

from flowbert.modules import FlowModule

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*does not have many workers:UserWarning",
    "ignore:.*logging interval:UserWarning",
    "ignore:.*no `val_dataloader`:UserWarning",
)
DIM, ROWS = 8, 256


class _Rows(LightningDataModule):
    """Rows in their order, in batches of a size."""

    def __init__(self, batch_size: int) -> None:
        super().__init__()
        mix = torch.randn(DIM, DIM, generator=torch.Generator().manual_seed(1))
        self.rows = torch.randn(ROWS, DIM, generator=torch.Generator().manual_seed(0)) @ mix + 3
        self.batch_size = batch_size

    def start_sample(self) -> torch.Tensor:
        return self.rows

    def distinct_examples(self) -> int:
        return ROWS

    def train_dataloader(self) -> DataLoader[Any]:
        rows: Any = self.rows.numpy()
        return DataLoader(rows, batch_size=self.batch_size, collate_fn=np.stack)


def _fit(folder: Path, batch_size: int, accelerator: str = "cpu", **options: Any) -> dict[str, torch.Tensor]:
    module = FlowModule(DIM, noise=0.0, schedule="constant")
    quiet: dict[str, Any] = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    quiet |= {"enable_model_summary": False, "default_root_dir": folder}
    trainer = Trainer(accelerator=accelerator, devices=1, max_epochs=2, gradient_clip_val=1.0, **quiet, **options)
    trainer.fit(module, datamodule=_Rows(batch_size))
    return {name: value.cpu().double() for name, value in module.state_dict().items() if value.is_floating_point()}


def _apart(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> float:
    return max(float((first[name] - second[name]).abs().max()) for name in first)


def test_two_accumulated_batches_are_one_of_twice_the_size(tmp_path: Path) -> None:
    whole = _fit(tmp_path, 64)
    assert _apart(whole, _fit(tmp_path, 32, accumulate_grad_batches=2)) < 1e-5
    assert _apart(whole, _fit(tmp_path, 32)) > 1e-3


def test_autocast_does_not_move_the_flow(tmp_path: Path) -> None:
    assert _apart(_fit(tmp_path, 64), _fit(tmp_path, 64, precision="bf16-mixed")) == 0


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
def test_a_gpu_fits_the_flow_of_a_cpu(tmp_path: Path) -> None:
    assert _apart(_fit(tmp_path, 64), _fit(tmp_path, 64, accelerator="gpu")) < 1e-3

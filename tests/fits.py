"""Small fits of a flow with a stock Trainer."""

from pathlib import Path

import numpy as np
import torch
from pytorch_lightning import Callback, Trainer

from flowbert.methods import FlowModule
from flowbert.training import RowsDataModule
from flowbert.training.trainer import quiet_lightning

DIM = 4
BATCHES = 5  # of an epoch


class EveryBatch(Callback):
    """Checkpoints where ModelCheckpoint writes those by time: at the end of any batch."""

    def __init__(self, folder: Path):
        self.folder = folder

    def on_train_batch_end(self, trainer, *_):
        number = trainer.fit_loop.total_batch_idx
        trainer.save_checkpoint(self.folder / f"batch-{number:02}.ckpt")


def make_rows(count=22, dim=DIM, seed=0):
    """Correlated rows with a mean; by default two more than fit into the batches."""
    mixing = np.random.default_rng(9).normal(size=(dim, dim))
    rows = np.random.default_rng(seed).normal(size=(count, dim))
    return (2 * rows @ mixing + 5).astype(np.float32)


def make_data(**options):
    small = {"rows": make_rows(), "batch_size": 4, "init_size": 16}
    return RowsDataModule(**small | options)


def make_module(**options):
    small = {"dim": DIM, "levels": 1, "depth": 1, "width": 4}
    return FlowModule(**small | {"learning_rate": 0.01} | options)


def fit(
    folder, *callbacks, module=None, data=None, loader=None, ckpt_path=None, **options
):
    """Fit, by default for two epochs; the Trainer has the module."""
    writes = any("Checkpoint" in type(each).__name__ for each in callbacks)
    defaults = {
        "accelerator": "cpu",
        "devices": 1,
        "logger": False,
        "max_epochs": -1 if "max_steps" in options else 2,
        "enable_checkpointing": writes,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "num_sanity_val_steps": 0,
        "default_root_dir": folder,
    }
    with quiet_lightning():
        trainer = Trainer(callbacks=list(callbacks), **defaults | options)
        if loader is None and data is None:
            data = make_data()
        trainer.fit(
            make_module() if module is None else module,
            loader,
            datamodule=data,
            ckpt_path=ckpt_path,
            weights_only=True if ckpt_path else None,
        )
    return trainer


def tensors(trainer):
    """Parameters, buffers and averages of the optimizer after a fit."""
    state = dict(trainer.lightning_module.state_dict())
    (optimizer,) = trainer.optimizers
    for number, averages in optimizer.state_dict()["state"].items():
        state |= {f"{name} {number}": value for name, value in averages.items()}
    return state


def differences(first, second):
    """Names of the tensors that are not equal to the last bit."""
    one, two = tensors(first), tensors(second)
    assert one.keys() == two.keys()
    return [name for name in one if not torch.equal(one[name], two[name])]

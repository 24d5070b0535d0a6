"""Batches and samples of vectors."""

from typing import Any

import numpy as np
import pytest
import torch
from pytorch_lightning import Callback

from fits import fit, make_module, make_rows
from flowbert.errors import UserError
from flowbert.training import RowsDataModule
from flowbert.vectors import Vectors

ROWS = make_rows(100)


class Lazy(Vectors):
    """Rows that remember the most asked for at once."""

    def __init__(self):
        super().__init__(ROWS)
        self.most = 0

    def __getitem__(self, index):
        rows = super().__getitem__(index)
        self.most = max(self.most, len(rows))
        return rows


def test_batches_samples_and_predictions():
    lazy = Lazy()
    options: dict[str, Any] = {"batch_size": 16, "init_size": 30, "seed": 1}
    data = RowsDataModule(lazy, **options, name="x", digest="d")
    batches = list(data.train_dataloader())
    assert [batch.shape for batch in batches] == [(16, 4)] * 6
    # A Trainer in half precision rounds tensors, not arrays.
    assert all(isinstance(x, np.ndarray) and x.dtype == np.float32 for x in batches)
    assert lazy.most == 16
    assert len(np.unique(np.concatenate(batches), axis=0)) == 96
    start = data.init_sample()
    assert torch.equal(start, RowsDataModule(ROWS, **options).init_sample())
    assert len(torch.unique(start, dim=0)) == 30
    for loader in (data.predict_dataloader(), data.val_dataloader()[0]):
        assert np.array_equal(np.concatenate(list(loader)), ROWS)
    assert data.describe() == {"name": "x", "digest": "d", "fitted": 100}
    unnamed = RowsDataModule(ROWS.copy()).describe()
    assert unnamed == RowsDataModule(torch.from_numpy(ROWS)).describe()
    assert unnamed != RowsDataModule(-ROWS).describe()


def test_equal_rows_are_held_out_together():
    rows = np.concatenate([ROWS, ROWS])
    data = RowsDataModule(rows, held_out=0.1, seed=2)
    held = data.held_out_rows[np.arange(len(data.held_out_rows))]
    fitting = data.rows[np.arange(len(data.rows))]
    assert len(held) + len(fitting) == 200
    assert 20 < len(held) <= 40
    assert not {row.tobytes() for row in held} & {row.tobytes() for row in fitting}
    sizes = [sum(map(len, loader)) for loader in data.val_dataloader()]
    assert sizes == [len(fitting), len(held)]
    assert np.array_equal(np.concatenate(list(data.predict_dataloader())), rows)


BAD = [
    (ROWS[:1], {}, "rows: received 1 to fit on"),
    (ROWS[:1], {"name": "a.npy"}, "a.npy: received 1 to fit on"),
    (ROWS[0], {}, r"vectors: received float32 of shape \(4,\)"),
]


@pytest.mark.parametrize(("rows", "options", "message"), BAD)
def test_bad_arguments(rows, options, message):
    with pytest.raises((UserError, ValueError), match=message):
        RowsDataModule(rows, **options)


def test_overfit_batches_are_the_same_in_every_epoch(tmp_path):
    batches = []

    class Watch(Callback):
        def on_train_batch_start(self, *given):
            batches.append(given[2])

    data = RowsDataModule(ROWS, batch_size=16, seed=1)
    expected = list(RowsDataModule(ROWS, batch_size=16, seed=1).train_dataloader())[:2]
    module = make_module()
    fit(tmp_path, Watch(), module=module, data=data, overfit_batches=2, max_epochs=2)
    assert len(batches) == 4
    for batch, same in zip(batches, expected * 2, strict=True):
        assert np.array_equal(batch, same)

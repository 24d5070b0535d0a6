"""Rows of arrays and files, and the data module over them."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from fits import make_rows
from flowbert.errors import UserError
from flowbert.training import RowsDataModule
from flowbert.training.rows import Rows

ROWS = make_rows(100)


class Lazy:
    """Rows that remember the most asked for at once."""

    shape = ROWS.shape

    def __init__(self) -> None:
        self.most = 0

    def __getitem__(self, index: NDArray[np.int64]) -> NDArray[np.float32]:
        self.most = max(self.most, len(index))
        return ROWS[index]

    def blocks(self, size: int) -> Iterator[NDArray[np.float32]]:
        yield from np.array_split(ROWS, 7)


def sources(folder: Path) -> list[Any]:
    np.save(folder / "rows.npy", ROWS)
    mapped = np.load(folder / "rows.npy", mmap_mode="r")
    return [ROWS, ROWS.astype(np.float64), mapped, torch.from_numpy(ROWS), Lazy()]


def test_rows_of_any_source(tmp_path: Path) -> None:
    index = np.array([5, 3, 99])
    for source in sources(tmp_path):
        for rows, expected in (
            (Rows(source), ROWS),
            (Rows(source, index), ROWS[index]),
        ):
            assert rows.shape == expected.shape == (len(rows), 4)
            assert rows[np.array([2, 0])].dtype == np.float32
            assert np.array_equal(rows[np.array([2, 0])], expected[[2, 0]])
            assert np.array_equal(np.concatenate(list(rows.blocks(8))), expected)


def test_distinct_rows_are_counted_up_to_a_limit() -> None:
    rows = Rows(np.repeat(ROWS[:6], 3, axis=0))
    assert [rows.count_distinct(limit) for limit in (2, 6, 7)] == [2, 6, 6]


def test_batches_samples_and_predictions() -> None:
    lazy = Lazy()
    data = RowsDataModule(
        lazy, batch_size=16, start_size=30, seed=1, name="x", digest="d"
    )
    batches = list(data.train_dataloader())
    assert [batch.shape for batch in batches] == [(16, 4)] * 6
    # A Trainer in half precision rounds tensors, not arrays.
    assert {(type(batch), batch.dtype) for batch in batches} == {
        (np.ndarray, np.dtype("f4"))
    }
    assert lazy.most == 16
    assert len(np.unique(np.concatenate(batches), axis=0)) == 96
    start = data.start_sample()
    assert torch.equal(
        start, RowsDataModule(ROWS, start_size=30, seed=1).start_sample()
    )
    assert len(torch.unique(start, dim=0)) == 30
    assert np.array_equal(np.concatenate(list(data.predict_dataloader())), ROWS)
    (validation,) = data.val_dataloader()
    assert np.array_equal(np.concatenate(list(validation)), ROWS)
    assert data.describe() == {"name": "x", "digest": "d", "fitted": 100}


def test_equal_rows_are_held_out_together() -> None:
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


BAD: list[tuple[Any, dict[str, Any], str]] = [
    (ROWS[:1], {}, "rows: received 1 to fit on"),
    (ROWS[:1], {"name": "a.npy"}, "a.npy: received 1 to fit on"),
    (ROWS, {"held_out": 0.6}, r"held_out: received 0\.6"),
    (ROWS, {"batch_size": 0}, "batch_size: received 0"),
    (ROWS, {"start_size": 1}, "start_size: received 1"),
    (ROWS, {"workers": -1}, "workers: received -1"),
    (ROWS[0], {}, r"rows: received the shape \(4,\)"),
]


@pytest.mark.parametrize(("rows", "options", "message"), BAD)
def test_bad_arguments(rows: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises((UserError, ValueError), match=message):
        RowsDataModule(rows, **options)


def test_more_processes_than_rows() -> None:
    data = RowsDataModule(ROWS[:2])
    data.trainer = SimpleNamespace(global_rank=0, world_size=3)  # type: ignore[assignment]
    with pytest.raises(
        UserError, match="devices: received 3 processes; expected at most 2"
    ):
        data.train_dataloader()

"""A run that resumes from a checkpoint ends like one that never stopped, to the last bit."""

from datetime import timedelta
from typing import Any

import pytest
from pytorch_lightning.callbacks import BatchSizeFinder, ModelCheckpoint

from fits import (
    BATCHES,
    EveryBatch,
    differences,
    fit,
    make_data,
    make_module,
    make_rows,
)
from flowbert.training import checkpoint_callbacks
from helpers import refused, with_slow


def checkpoints(folder):
    """Stock callbacks that write all that they can."""
    every: dict[str, Any] = {"dirpath": folder, "save_top_k": -1}
    validation: dict[str, Any] = {
        "monitor": "train/nll",
        "save_on_train_epoch_end": False,
    }
    return [
        EveryBatch(folder),
        ModelCheckpoint(**every, filename="step-{step}", every_n_train_steps=1),
        ModelCheckpoint(
            **every, filename="time-{step}", train_time_interval=timedelta(0)
        ),
        ModelCheckpoint(**every, filename="epoch-{step}", save_on_train_epoch_end=True),
        ModelCheckpoint(**every, filename="validation-{step}", **validation),
    ]


RUNS: dict[str, dict[str, Any]] = {
    "epochs": {},
    "epochs, validation within": {"val_check_interval": 3},
    "epochs, accumulation": {"accumulate_grad_batches": 3, "val_check_interval": 2},
    "steps": {"max_steps": 2 * BATCHES},
    "steps, validation within": {"max_steps": 2 * BATCHES, "val_check_interval": 3},
    "steps, accumulation": {"max_steps": 4, "accumulate_grad_batches": 3},
    "part of an epoch": {"limit_train_batches": 3, "max_epochs": 3},
    "loaders made anew": {"reload_dataloaders_every_n_epochs": 1},
    "clipping": {"gradient_clip_val": 0.1, "check_val_every_n_epoch": 2},
}


DEFAULT = ("epochs, accumulation", "steps, validation within")
"""Runs of the default tests."""


@pytest.mark.parametrize("run", with_slow(RUNS, DEFAULT))
def test_from_every_checkpoint(run, tmp_path):
    options = RUNS[run]
    whole = fit(tmp_path, *checkpoints(tmp_path / "whole"), **options)
    files = sorted((tmp_path / "whole").iterdir())
    kinds = {file.name.split("-")[0] for file in files}
    assert kinds == {"batch", "step", "time", "epoch", "validation"}
    for file in files:
        if run != "epochs" and file.name.startswith(("step", "time")):
            continue  # as those of each batch
        resumed = fit(tmp_path, ckpt_path=file, **options)
        assert resumed.global_step == whole.global_step, file.name
        assert differences(whole, resumed) == [], file.name


LENGTHS = [
    {"max_epochs": 1},
    {"max_epochs": 2, "max_steps": 7},
    {"max_epochs": -1, "max_steps": 10},
    {"max_epochs": 3, "max_steps": 12},
]


@pytest.mark.parametrize(
    ("accumulate", "validate"), with_slow([(1, 2), (2, 1.0)], [(2, 1.0)])
)
def test_two_parts_are_the_whole_or_refused(accumulate, validate, tmp_path):
    """Split by epochs, by steps, and by both, within epochs and at their ends."""

    def part(length, *callbacks, **options):
        options |= {
            "accumulate_grad_batches": accumulate,
            "val_check_interval": validate,
        }
        module = make_module(schedule="constant", noise=0.1)
        return fit(tmp_path, *callbacks, module=module, **length, **options)

    wholes = [part(length) for length in LENGTHS]
    ends = set()
    for number, first in enumerate(LENGTHS):
        folder = tmp_path / str(number)
        done = part(first, *checkpoint_callbacks(folder)).global_step
        for whole, length in zip(wholes, LENGTHS, strict=True):
            ends.add((done, whole.global_step))
            if whole.global_step < done:
                refused(
                    r"^trainer\.max_\w+: .* after",
                    part,
                    length,
                    ckpt_path=folder / "last.ckpt",
                )
                continue
            resumed = part(length, ckpt_path=folder / "last.ckpt")
            assert resumed.global_step == whole.global_step, (first, length)
            assert differences(whole, resumed) == [], (first, length)
    assert len(ends) > 10


@pytest.mark.parametrize(
    "schedule", [{"schedule": "cosine"}, {"schedule": "constant", "warmup": 0.2}]
)
def test_a_schedule_over_the_run_is_not_stretched(schedule, tmp_path):
    callbacks = checkpoint_callbacks(tmp_path)
    fit(tmp_path, *callbacks, module=make_module(**schedule), max_steps=7)
    last = tmp_path / "last.ckpt"
    lengths = [{"max_steps": 12}, {"max_epochs": 3}]
    for longer in lengths:
        refused(
            r"^trainer\.max_\w+: .* expected 7 as in",
            fit,
            tmp_path,
            module=make_module(**schedule),
            ckpt_path=last,
            **longer,
        )
    refused(
        "a training without an end",
        fit,
        tmp_path,
        module=make_module(**schedule),
        max_epochs=-1,
    )


def test_a_finder_is_refused_in_a_resumed_fit(tmp_path):
    """Lightning goes on from the checkpoint of the finder then, at step 0."""
    fit(tmp_path, *checkpoint_callbacks(tmp_path), max_epochs=1)
    finder = BatchSizeFinder(init_val=2, max_trials=1)
    refused(
        r"^trainer\.callbacks: .* to step 0, after a checkpoint of step 5",
        fit,
        tmp_path,
        finder,
        module=make_module(schedule="constant"),
        ckpt_path=tmp_path / "last.ckpt",
    )


def test_refused_where_it_would_not_be_exact(tmp_path):
    folder = tmp_path / "whole"
    fit(tmp_path, *checkpoints(folder), max_epochs=3)
    middle = folder / "batch-03.ckpt"
    other = r"^corpus: received '' .* fitted on other sentences or vectors"
    cases = [
        ({"data": make_data(rows=make_rows(26))}, other),
        ({"data": make_data(digest="b")}, other),
        ({"data": make_data(held_out=0.1)}, other),
    ]
    for options, message in cases:
        refused(message, fit, tmp_path, ckpt_path=middle, **options)

"""Fits on two processes, and fits that are killed; they start processes by forks."""

import random
import signal
import time
from multiprocessing import get_context

import pytest
import torch

from fits import EveryBatch, fit, make_data, make_module, make_rows, tensors
from flowbert.training import AtomicCheckpointIO, TaskEvaluation, checkpoint_callbacks
from helpers import scored, with_slow

pytestmark = pytest.mark.usefixtures("one_thread")
QUICK = 3, "whitening"


@pytest.mark.parametrize(
    ("accumulate", "init"), with_slow([(1, "actnorm"), QUICK], [QUICK])
)
def test_two_processes_fit_the_flow_of_one(accumulate, init, tmp_path):
    # The noise of a process is its own.
    one, two, resumed = (make_module(noise=0.0, init=init) for _ in range(3))
    options = {"accumulate_grad_batches": accumulate}
    task = scored({"dev": range(3)})
    evaluation = TaskEvaluation([task], lambda texts: make_rows(len(texts)))
    expected = fit(
        tmp_path, evaluation, module=one, data=make_data(batch_size=4), **options
    )
    options |= {"devices": 2, "strategy": "ddp_fork"}
    data, file = make_data(batch_size=2), tmp_path / "batch-03.ckpt"
    callbacks = [EveryBatch(tmp_path), evaluation]
    trainer = fit(tmp_path, *callbacks, module=two, data=data, **options)
    fit(tmp_path, module=resumed, data=data, ckpt_path=file, **options)
    for name, value in one.state_dict().items():
        for module in (two, resumed):
            # Sums of float32 numbers in another order, in ten steps.
            torch.testing.assert_close(
                module.state_dict()[name], value, rtol=1e-5, atol=1e-6
            )
    for name, figure in expected.callback_metrics.items():
        torch.testing.assert_close(
            trainer.callback_metrics[name], figure, rtol=1e-5, atol=0, equal_nan=True
        )


EPOCHS = 8
KILLS = 2


def fit_to_the_end(folder):
    """Go on from last.ckpt, if it is there."""
    last = folder / "run" / "last.ckpt"
    trainer = fit(
        folder,
        *checkpoint_callbacks(last.parent, every_n_steps=1, every_n_minutes=1e-9),
        plugins=[AtomicCheckpointIO()],
        ckpt_path=last if last.exists() else None,
        max_epochs=EPOCHS,
        accumulate_grad_batches=2,
    )
    torch.save(tensors(trainer), folder / "end.pt")


def written(path):
    """When a file was written; 0 without one."""
    return path.stat().st_mtime_ns if path.exists() else 0


@pytest.mark.parametrize("seed", with_slow([0, 1], [0]))
def test_sigkill_at_any_moment(seed, tmp_path):
    expected = tensors(fit(tmp_path, max_epochs=EPOCHS, accumulate_grad_batches=2))
    rng, kills = random.Random(seed), 0
    last = tmp_path / "run" / "last.ckpt"
    while not (tmp_path / "end.pt").exists():
        before = written(last)
        process = get_context("fork").Process(target=fit_to_the_end, args=(tmp_path,))
        process.start()
        if kills < KILLS:
            while process.is_alive() and written(last) == before:
                time.sleep(0.001)
            time.sleep(rng.uniform(0, 0.02))
            process.kill()
        process.join()
        kills += process.exitcode == -signal.SIGKILL
    assert kills > 0
    state = torch.load(tmp_path / "end.pt", weights_only=True)
    assert all(torch.equal(state[name], value) for name, value in expected.items())

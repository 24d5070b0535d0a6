"""What Lightning has no public name for, and its errors as ours, in one place."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lightning_fabric.utilities.exceptions import MisconfigurationException
from pytorch_lightning import Trainer

from flowbert.errors import UserError
from flowbert.notices import lightning_notices_filtered
from flowbert.processes import lost_process


def count_logged_steps(trainer: Trainer) -> None:
    """Log the next figures under the number of the optimizer steps done.

    Lightning counts one step too many after some resumes, which moves every logged figure.
    """
    loop: Any = trainer.fit_loop.epoch_loop
    loop._batches_that_stepped = trainer.global_step


def weight_of(examples: int) -> Any:
    """Weight of a batch's figure in the mean over an epoch: a number that Lightning does not round.

    It averages the sum of the weights over processes in the type it has, and rounds a whole number down.
    """
    return float(examples)


def batches_processed(trainer: Trainer) -> int:
    """Batches of this epoch whose gradients are there; only later Lightning counts them as completed."""
    progress: Any = trainer.fit_loop.epoch_loop.batch_progress.current
    processed: int = progress.processed
    return processed


@contextmanager
def lightning_as_ours() -> Iterator[None]:
    """Lightning's notices and errors as ours."""
    try:
        with lightning_notices_filtered():
            yield
    except MisconfigurationException as error:
        raise UserError(f"trainer: {error}") from error
    except RuntimeError as error:
        reason = lost_process(error)
        if reason is None:
            raise
        raise UserError(f"{reason}; no file is half-written; ckpt_path goes on from checkpoints/last.ckpt") from error
    except SystemExit as stop:
        if stop.code == 1:  # Lightning's end of a training that Ctrl-C has stopped
            raise KeyboardInterrupt from None
        raise

"""What Lightning has no public name for, in one place."""

from typing import Any

from pytorch_lightning import Trainer


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

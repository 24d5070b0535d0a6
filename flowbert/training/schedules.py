"""Learning-rate schedules by name: transformers' own, with the warm-up as a share of the run."""

import math

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR
from transformers import get_scheduler

from flowbert.errors import UserError, choices
from flowbert.training.limits import check_limits

SCHEDULES = {"constant": "constant_with_warmup", "linear": "linear", "cosine": "cosine"}  # their names


def check_schedule(schedule: str, warmup: float) -> None:
    """Raise a UserError for an unknown schedule, or a warm-up outside [0, 1)."""
    if schedule not in SCHEDULES:
        raise UserError(f"schedule: received {schedule!r}; {choices(SCHEDULES, schedule)}")
    check_limits(warmup=warmup)


def make_schedule(optimizer: Optimizer, schedule: str, warmup: float, total: int) -> LambdaLR:
    """A linear rise of the learning rate from 0, then constant, or linear or cosine decay to 0.

    Args:
        optimizer: Its learning rate is the largest one.
        schedule: ``constant``, ``linear`` or ``cosine``.
        warmup: Share of the steps that rise, in [0, 1).
        total: Steps of the whole run.

    Raises:
        UserError: If the schedule is unknown or the warm-up outside [0, 1).

    Example:
        >>> import torch
        >>> optimizer = torch.optim.SGD([torch.zeros(1)], lr=1.0)
        >>> (rate,) = make_schedule(optimizer, "linear", warmup=0.5, total=4).lr_lambdas
        >>> [rate(step) for step in range(5)]
        [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    check_schedule(schedule, warmup)
    scheduler: LambdaLR = get_scheduler(SCHEDULES[schedule], optimizer, math.ceil(warmup * total), total)
    return scheduler

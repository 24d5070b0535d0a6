"""Learning-rate schedules as a factor per step."""

import math
from collections.abc import Callable

from flowbert.errors import UserError, choices

SCHEDULES = ("constant", "linear", "cosine")


def warmup_then(schedule: str, warmup: float, total: int) -> Callable[[int], float]:
    """Factor of the learning rate at each step: a linear rise, then constant, or linear or cosine decay to zero.

    The first of W rising steps has factor 0, the next 1 / W, as in BERT and in transformers' schedules.

    Args:
        schedule: ``constant``, ``linear`` or ``cosine``.
        warmup: Share of the steps that rise, in [0, 1).
        total: Steps of the whole run.

    Returns:
        Function from the step (0, 1, ...) to the factor in [0, 1].

    Raises:
        UserError: If the schedule is unknown or the warm-up outside [0, 1).

    Example:
        >>> factor = warmup_then("linear", warmup=0.5, total=4)
        >>> [factor(step) for step in range(5)]
        [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    if schedule not in SCHEDULES:
        raise UserError(f"model.schedule: received {schedule!r}; {choices(SCHEDULES, schedule)}")
    if not 0 <= warmup < 1:
        raise UserError(f"model.warmup: received {warmup}; allowed: 0 to below 1, a share of all steps")
    rising = math.ceil(warmup * total)

    def factor(step: int) -> float:
        if step < rising:
            return step / rising
        done = min(1.0, (step - rising) / max(1, total - rising))
        if schedule == "linear":
            return 1 - done
        if schedule == "cosine":
            return 0.5 * (1 + math.cos(math.pi * done))
        return 1.0

    return factor

"""Learning-rate factors: transformers' own at every step."""

from typing import Any

import pytest
import torch
from transformers import get_scheduler

from flowbert.errors import UserError
from flowbert.training.schedules import warmup_then


@pytest.mark.parametrize(("warmup", "total", "rising"), [(0.0, 7, 0), (0.1, 100, 10), (0.1, 31, 4), (0.5, 4, 2)])
@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine"])
def test_factors_are_those_of_transformers(schedule: str, warmup: float, total: int, rising: int) -> None:
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    name = "constant_with_warmup" if schedule == "constant" else schedule
    theirs: Any = get_scheduler(name, optimizer, rising, total)
    factor = warmup_then(schedule, warmup, total)
    for step in range(total):
        assert factor(step) == pytest.approx(theirs.get_last_lr()[0], abs=1e-12)
        optimizer.step()
        theirs.step()


def test_a_decayed_rate_stays_at_zero_beyond_the_end() -> None:
    assert [warmup_then(schedule, 0.25, 8)(9) for schedule in ("linear", "cosine", "constant")] == [0.0, 0.0, 1.0]


@pytest.mark.parametrize(
    ("schedule", "warmup", "message"),
    [("liner", 0.0, r"model.schedule: received 'liner'.*'linear'"), ("linear", 1.0, r"model.warmup: received 1.0")],
)
def test_mistakes(schedule: str, warmup: float, message: str) -> None:
    with pytest.raises(UserError, match=message):
        warmup_then(schedule, warmup, 10)

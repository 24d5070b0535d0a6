"""Learning rates by name: transformers' own, with the warm-up as a share of the run."""

import pytest
import torch
from torch.optim.lr_scheduler import LambdaLR

from flowbert.errors import UserError
from flowbert.training.schedules import make_schedule


def _schedule(schedule: str, warmup: float, total: int) -> LambdaLR:
    return make_schedule(torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0), schedule, warmup, total)


@pytest.mark.parametrize(("warmup", "total", "rising"), [(0.0, 7, 0), (0.1, 100, 10), (0.1, 31, 4), (0.5, 4, 2)])
@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine"])
def test_a_share_of_the_steps_rises(schedule: str, warmup: float, total: int, rising: int) -> None:
    (rate,) = _schedule(schedule, warmup, total).lr_lambdas
    assert [rate(step) for step in range(rising)] == pytest.approx([step / rising for step in range(rising)])
    assert rate(rising) == 1.0
    falling = [rate(step) for step in range(rising, total)]
    assert falling == ([1.0] * len(falling) if schedule == "constant" else sorted(falling, reverse=True))


def test_a_linear_rate_stays_at_zero_beyond_the_end() -> None:
    assert [_schedule(schedule, 0.25, 8).lr_lambdas[0](9) for schedule in ("linear", "constant")] == [0.0, 1.0]


@pytest.mark.parametrize(
    ("schedule", "warmup", "message"),
    [("liner", 0.0, r"schedule: received 'liner'.*'linear'"), ("linear", 1.0, r"warmup: received 1.0")],
)
def test_mistakes(schedule: str, warmup: float, message: str) -> None:
    with pytest.raises(UserError, match=message):
        _schedule(schedule, warmup, 10)

"""BertAdam against its formula, and the schedules against those of transformers."""

import math

import numpy as np
import pytest
import torch
from torch.nn import Parameter
from transformers import get_scheduler

from fits import make_module
from flowbert.training.optim import BertAdam

START = np.random.default_rng(0).normal(size=(3, 2))
SCALES = np.arange(1.0, 7.0).reshape(3, 2)


def formula(steps, lr, decay, betas):
    p, m, v = START, np.zeros_like(START), np.zeros_like(START)
    for _ in range(steps):
        g = SCALES * np.sin(p)
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g**2
        p = p - lr * (m / (np.sqrt(v) + 1e-6) + decay * p)
    return p


@pytest.mark.parametrize("decay", [0.0, 0.3])
@pytest.mark.parametrize("steps", [1, 25])
@pytest.mark.parametrize("betas", [(0.9, 0.999), (0.999999, 0.9999999)])
def test_equals_the_formula(steps, decay, betas):
    p = Parameter(torch.from_numpy(START.copy()))
    optimizer = BertAdam([p], 0.02, betas, weight_decay=decay)
    for _ in range(steps):
        p.grad = torch.from_numpy(SCALES) * torch.sin(p.detach())
        optimizer.step()
    # float64 rounds to 1e-16 in each of 25 steps; 1 / eps = 1e6 multiplies it.
    expected = formula(steps, 0.02, decay, betas)
    np.testing.assert_allclose(p.detach().numpy(), expected, rtol=1e-9)


@pytest.mark.parametrize("warmup", [0.0, 0.2])
@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine"])
def test_schedules_are_those_of_transformers(schedule, warmup):
    module = make_module(schedule=schedule, warmup=warmup)
    module._scheduled = 17, 1.0
    name = "constant_with_warmup" if schedule == "constant" else schedule
    optimizer = torch.optim.SGD(module.parameters())
    (share,) = get_scheduler(name, optimizer, math.ceil(17 * warmup), 17).lr_lambdas
    assert list(map(module._share_of_peak, range(18))) == list(map(share, range(18)))

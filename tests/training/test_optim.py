import copy
from typing import Any

import numpy as np
import pytest
import torch

from flowbert.errors import UserError
from flowbert.training.optim import BertAdam


def quadratic(p: torch.Tensor) -> torch.Tensor:
    return (p.cos() * torch.arange(1, p.numel() + 1, dtype=p.dtype).reshape(p.shape)).sum()


def gradient(p: np.ndarray) -> np.ndarray:
    result: np.ndarray = -np.sin(p) * np.arange(1, p.size + 1).reshape(p.shape)
    return result


def by_hand(p: np.ndarray, steps: int, lr: float, wd: float, betas: tuple[float, float] = (0.9, 0.999)) -> np.ndarray:
    p, m, v = p.copy(), np.zeros_like(p), np.zeros_like(p)
    for _ in range(steps):
        g = gradient(p)
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g**2
        p = p - lr * (m / (np.sqrt(v) + 1e-6) + wd * p)
    return p


@pytest.fixture
def starts() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.normal(size=(3, 2)), rng.normal(size=4)]


def train(optimizer: BertAdam, params: list[torch.nn.Parameter], steps: int) -> None:
    for _ in range(steps):
        optimizer.zero_grad()
        torch.stack([quadratic(p) for p in params]).sum().backward()  # type: ignore[no-untyped-call]
        optimizer.step()


def test_averages_that_forget_hardly_anything(starts: list[np.ndarray]) -> None:
    betas = (0.999999, 0.9999999)
    p = torch.nn.Parameter(torch.from_numpy(starts[0].copy()))
    train(BertAdam([p], lr=0.02, betas=betas), [p], 3)
    np.testing.assert_allclose(p.detach().numpy(), by_hand(starts[0], 3, 0.02, 0.0, betas), rtol=1e-10)


@pytest.mark.parametrize("weight_decay", [0.0, 0.3])
@pytest.mark.parametrize("steps", [1, 2, 25])
def test_equals_the_formula(starts: list[np.ndarray], steps: int, weight_decay: float) -> None:
    params = [torch.nn.Parameter(torch.from_numpy(start.copy())) for start in starts]
    train(BertAdam(params, lr=0.02, weight_decay=weight_decay), params, steps)
    for p, start in zip(params, starts, strict=True):
        np.testing.assert_allclose(p.detach().numpy(), by_hand(start, steps, 0.02, weight_decay), rtol=1e-10)


def test_groups_have_their_own_settings(starts: list[np.ndarray]) -> None:
    params = [torch.nn.Parameter(torch.from_numpy(start.copy())) for start in starts]
    groups: list[dict[str, Any]] = [
        {"params": params[:1], "lr": 0.1, "betas": (0.5, 0.9)},
        {"params": params[1:], "weight_decay": 0.2},
    ]
    train(BertAdam(groups, lr=0.01), params, 5)
    np.testing.assert_allclose(params[0].detach().numpy(), by_hand(starts[0], 5, 0.1, 0.0, (0.5, 0.9)), rtol=1e-10)
    np.testing.assert_allclose(params[1].detach().numpy(), by_hand(starts[1], 5, 0.01, 0.2), rtol=1e-10)


def test_gradients_and_parameters_of_any_layout(starts: list[np.ndarray]) -> None:
    start = starts[0]
    plain, transposed = torch.from_numpy(start.copy()), torch.from_numpy(start.T.copy()).T
    assert plain.stride() != transposed.stride()
    for parameter in (plain, transposed):
        for gradient_like in (plain, transposed):
            p = torch.nn.Parameter(parameter.clone(memory_format=torch.preserve_format))
            p.grad = torch.empty_like(gradient_like).copy_(torch.from_numpy(gradient(start)))
            BertAdam([p], lr=0.02, weight_decay=0.3).step()
            np.testing.assert_allclose(p.detach().numpy(), by_hand(start, 1, 0.02, 0.3), rtol=1e-10)


def test_parameter_without_gradient_stays(starts: list[np.ndarray]) -> None:
    params = [torch.nn.Parameter(torch.from_numpy(start.copy())) for start in starts]
    train(BertAdam(params, lr=0.1, weight_decay=0.5), params[:1], 3)
    assert np.array_equal(params[1].detach().numpy(), starts[1])
    BertAdam(params).step()


def test_closure(starts: list[np.ndarray]) -> None:
    p = torch.nn.Parameter(torch.from_numpy(starts[0].copy()))
    optimizer = BertAdam([p], lr=0.02)

    def closure() -> float:
        optimizer.zero_grad()
        loss = quadratic(p)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.item()

    before = quadratic(p).item()
    assert optimizer.step(closure) == before
    np.testing.assert_allclose(p.detach().numpy(), by_hand(starts[0], 1, 0.02, 0.0), rtol=1e-10)


def test_resumes_exactly_from_its_state(starts: list[np.ndarray]) -> None:
    params = [torch.nn.Parameter(torch.from_numpy(start.copy())) for start in starts]
    optimizer = BertAdam(params, lr=0.02, weight_decay=0.1)
    train(optimizer, params, 3)
    resumed = copy.deepcopy(params)
    second = BertAdam(resumed, lr=1.0)
    second.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    train(optimizer, params, 3)
    train(second, resumed, 3)
    assert all(torch.equal(a, b) for a, b in zip(params, resumed, strict=True))


@pytest.mark.parametrize("average", ["exp_avg", "exp_avg_sq"])
def test_resumes_exactly_from_averages_of_another_layout(starts: list[np.ndarray], average: str) -> None:
    p = torch.nn.Parameter(torch.from_numpy(starts[0].copy()))
    optimizer = BertAdam([p], lr=0.02)
    train(optimizer, [p], 3)
    state = copy.deepcopy(optimizer.state_dict())
    numbers = state["state"][0][average]
    state["state"][0][average] = numbers.T.contiguous().T
    assert state["state"][0][average].stride() != p.stride()
    resumed = copy.deepcopy(p)
    second = BertAdam([resumed], lr=0.02)
    second.load_state_dict(state)
    train(optimizer, [p], 3)
    train(second, [resumed], 3)
    assert torch.equal(p, resumed)


def test_schedule_sets_the_learning_rate(starts: list[np.ndarray]) -> None:
    p = torch.nn.Parameter(torch.from_numpy(starts[0].copy()))
    optimizer = BertAdam([p], lr=0.02)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0 if step == 0 else 0.0)
    for _ in range(4):
        train(optimizer, [p], 1)
        schedule.step()
    np.testing.assert_allclose(p.detach().numpy(), by_hand(starts[0], 1, 0.02, 0.0), rtol=1e-10)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lr": -0.1}, r"lr -0\.1 received, allowed: 0 or more"),
        ({"lr": float("nan")}, "lr nan received"),
        ({"eps": -1.0}, r"eps -1\.0 received"),
        ({"weight_decay": -1.0}, r"weight_decay -1\.0 received"),
        ({"betas": (0.9, 1.0)}, r"betas \(0\.9, 1\.0\) received, allowed: two numbers in \[0, 1\)"),
    ],
)
def test_values_out_of_range_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        BertAdam([torch.nn.Parameter(torch.zeros(1))], **options)

import pytest
import torch

from flowbert.errors import UserError
from flowbert.flows import ActNorm


@pytest.fixture
def x() -> torch.Tensor:
    return torch.randn(50, 4, generator=torch.Generator().manual_seed(0)) * torch.tensor([0.1, 1.0, 5.0, 100.0]) + 7


def test_first_batch_in_training_becomes_standard(x: torch.Tensor) -> None:
    z, log_det = ActNorm(4)(x)
    torch.testing.assert_close(z.mean(0), torch.zeros(4), atol=1e-4, rtol=0)
    torch.testing.assert_close(z.std(0, correction=0), torch.ones(4), atol=1e-4, rtol=0)
    torch.testing.assert_close(log_det[0], -x.std(0, correction=0).log().sum(), atol=1e-3, rtol=0)


def test_start_matches_the_definition(x: torch.Tensor) -> None:
    actnorm = ActNorm(4)
    actnorm(x)
    x = x.double()
    torch.testing.assert_close(actnorm.bias.double(), -x.mean(0), rtol=1e-5, atol=0, check_dtype=False)
    std = (x - x.mean(0)).square().mean(0).sqrt()
    torch.testing.assert_close(3 * actnorm.log_scale.double(), (1 / (std + 1e-6)).log(), rtol=1e-5, atol=1e-6)


def test_second_batch_changes_nothing(x: torch.Tensor) -> None:
    actnorm = ActNorm(4)
    actnorm(x)
    before = actnorm.bias.clone()
    actnorm(x + 10)
    assert torch.equal(actnorm.bias, before)


def test_is_the_identity_in_eval_mode_before_the_start(x: torch.Tensor) -> None:
    actnorm = ActNorm(4).eval()
    z, log_det = actnorm(x)
    assert torch.equal(z, x)
    assert torch.equal(log_det, torch.zeros(50))
    assert not actnorm.initialized


def test_reloaded_layer_does_not_start_again(x: torch.Tensor) -> None:
    actnorm, resumed = ActNorm(4), ActNorm(4)
    actnorm(x)
    resumed.load_state_dict(actnorm.state_dict())
    assert resumed.initialized
    resumed(x * 2 + 3)
    assert torch.equal(resumed.bias, actnorm.bias)
    assert torch.equal(resumed.log_scale, actnorm.log_scale)


def test_loading_an_unstarted_state_undoes_the_start(x: torch.Tensor) -> None:
    actnorm = ActNorm(4)
    actnorm(x)
    actnorm.load_state_dict(ActNorm(4).state_dict())
    actnorm(x * 2)
    torch.testing.assert_close(actnorm.bias.detach(), -2 * x.mean(0))


def test_restart_takes_the_next_batch(x: torch.Tensor) -> None:
    actnorm = ActNorm(4)
    actnorm(x)
    actnorm.restart()
    actnorm(x * 2)
    torch.testing.assert_close(actnorm.bias.detach(), -2 * x.mean(0))


def test_constant_dimension_stays_finite() -> None:
    actnorm = ActNorm(2)
    z, log_det = actnorm(torch.tensor([[1.0, 4.0], [2.0, 4.0]]))
    assert torch.isfinite(z).all()
    assert torch.isfinite(log_det).all()
    torch.testing.assert_close((3 * actnorm.log_scale[1]).exp().item(), 1e6, rtol=1e-3, atol=0)


def test_large_mean_does_not_destroy_the_spread() -> None:
    x = torch.randn(1000, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64).float() + 1e4
    actnorm = ActNorm(3)
    actnorm(x)
    expected = x.double().std(0, correction=0)
    torch.testing.assert_close((-3 * actnorm.log_scale.detach()).exp().double(), expected, rtol=1e-3, atol=0)


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (torch.ones(1, 2), r"1 row\(s\) received, allowed: 2 or more"),
        (torch.tensor([[1.0, float("nan")], [0.0, 1.0]]), "NaN or infinity received"),
        (torch.tensor([[1.0, float("inf")], [0.0, 1.0]]), "NaN or infinity received"),
    ],
)
def test_unusable_starting_batch_is_refused_and_leaves_the_layer_unstarted(batch: torch.Tensor, message: str) -> None:
    actnorm = ActNorm(2)
    with pytest.raises(UserError, match=message):
        actnorm(batch)
    assert not actnorm.initialized
    assert torch.equal(actnorm.bias, torch.zeros(2))

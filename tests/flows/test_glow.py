import copy
import math

import pytest
import torch
from torch import Tensor

from flowbert.errors import UserError
from flowbert.flows import ActNorm, Glow
from flowbert.losses.nll import bits_per_dim
from flowbert.training.optim import BertAdam


def batch(rows: int = 200, dim: int = 12, seed: int = 0) -> Tensor:
    """Correlated data with unequal scales and a mean."""
    generator = torch.Generator().manual_seed(seed)
    mixing = torch.randn(dim, dim, generator=torch.Generator().manual_seed(99))
    return torch.randn(rows, dim, generator=generator) @ mixing * torch.linspace(0.1, 3, dim) + 4


@pytest.fixture(params=[("lu", "rotation"), ("lu", "identity"), ("reverse", "identity"), ("random", "identity")])
def flow(request: pytest.FixtureRequest) -> Glow:
    mixing, init = request.param
    return Glow(12, mixing=mixing, mixing_init=init)


def test_defaults_are_those_of_the_paper_with_learned_mixing() -> None:
    config = Glow(8).config
    assert (config["levels"], config["depth"], config["width"]) == (2, 3, 32)
    assert (config["mixing"], config["coupling"]) == ("lu", "additive")


def test_initialize_standardizes_what_every_actnorm_puts_out(flow: Glow) -> None:
    x = batch()
    flow.initialize(x)
    outputs: dict[ActNorm, Tensor] = {}
    for module in flow.modules():
        if isinstance(module, ActNorm):
            module.register_forward_hook(lambda m, _, out: outputs.__setitem__(m, out[0]))
    flow(x)
    assert len(outputs) == 2 * 3 * 3
    for output in outputs.values():
        torch.testing.assert_close(output.mean(0), torch.zeros(output.shape[1]), atol=1e-3, rtol=0)
        torch.testing.assert_close(output.std(0, correction=0), torch.ones(output.shape[1]), atol=1e-3, rtol=0)


def test_initialize_is_deterministic_and_forgets_the_past(flow: Glow) -> None:
    other = copy.deepcopy(flow)
    other.initialize(batch(seed=7))
    for module in (flow, other):
        module.initialize(batch())
    assert all(torch.equal(a, b) for a, b in zip(flow.state_dict().values(), other.state_dict().values(), strict=True))


def test_initialize_is_what_the_first_training_batch_does(flow: Glow) -> None:
    other = copy.deepcopy(flow)
    flow.initialize(batch())
    other.train()(batch())
    assert all(torch.equal(a, b) for a, b in zip(flow.state_dict().values(), other.state_dict().values(), strict=True))


@pytest.mark.parametrize("training", [True, False])
def test_initialize_keeps_the_mode_and_leaves_no_gradient(flow: Glow, training: bool) -> None:
    flow.train(training).initialize(batch())
    assert all(module.training is training for module in flow.modules())
    assert all(parameter.grad is None for parameter in flow.parameters())
    assert flow.initialized


def test_only_actnorms_change_in_the_start(flow: Glow) -> None:
    before = {name: value.clone() for name, value in flow.state_dict().items()}
    flow.initialize(batch())
    changed = {name for name, value in flow.state_dict().items() if not torch.equal(value, before[name])}
    assert changed <= {name for name in before if "actnorm" in name}
    assert {"levels.0.step_0.actnorm.bias", "levels.1.step_2.coupling.net.actnorm_2.log_scale"} <= changed


def test_resumed_flow_does_not_start_again(flow: Glow) -> None:
    flow.initialize(batch())
    resumed = Glow(**flow.config)
    assert not resumed.initialized
    resumed.load_state_dict(flow.state_dict())
    assert resumed.initialized
    resumed.train()(batch(seed=5) * 9)
    assert all(
        torch.equal(a, b) for a, b in zip(flow.state_dict().values(), resumed.state_dict().values(), strict=True)
    )


def test_latent_is_the_leaving_halves_in_order_then_the_rest() -> None:
    flow = Glow(8, levels=3, depth=1, mixing="reverse").eval()  # not started: a level reverses its dimensions
    z, log_det = flow(torch.arange(8.0)[None])
    assert z.tolist() == [[3, 2, 1, 0, 6, 7, 5, 4]]
    assert log_det.tolist() == [0]


def test_nll_is_that_of_a_normal_for_the_identity_flow() -> None:
    x = batch()
    flow = Glow(12).eval()
    expected = torch.distributions.Normal(0.0, 1.0).log_prob(x).sum(1)  # type: ignore[no-untyped-call]
    torch.testing.assert_close(-flow.nll(x), expected)
    torch.testing.assert_close(flow.nll(x), -expected)


def test_density_integrates_to_one() -> None:
    flow = Glow(2, levels=1, depth=2, width=8, coupling="affine").double().eval()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in flow.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
        axis = torch.linspace(-25, 25, 1001, dtype=torch.float64)
        total = (-flow.nll(torch.cartesian_prod(axis, axis))).exp().sum() * 0.05**2
    assert abs(total.item() - 1) < 1e-3


def test_training_lowers_the_loss_towards_the_entropy(flow: Glow) -> None:
    x = batch(2000)
    entropy = 0.5 * (torch.logdet(torch.cov(x.T)) + 12 * (1 + math.log(2 * math.pi)))
    flow.initialize(x)
    start = flow.nll(x).mean().item()
    optimizer = BertAdam(flow.parameters(), lr=3e-3)
    generator = torch.Generator().manual_seed(0)
    for _ in range(400):
        optimizer.zero_grad()
        rows = torch.randint(len(x), (64,), generator=generator)
        bits_per_dim(flow.nll(x[rows]), 12).mean().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    end = flow.nll(x).mean().item()
    assert start - end > 0.5 * (start - entropy)


def test_float32_round_trip_at_an_encoders_size() -> None:
    flow = Glow(384, mixing_init="rotation")
    x = batch(64, 384)
    flow.initialize(x)
    z, log_det = flow(x)
    back, inverse_log_det = flow.inverse(z)
    torch.testing.assert_close(back, x, rtol=1e-3, atol=1e-2)
    torch.testing.assert_close(inverse_log_det, -log_det, rtol=1e-4, atol=1e-2)


def test_seed_decides_the_start_and_global_state_is_untouched() -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    first, again, other = (Glow(8, mixing_init="rotation", seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    states = [torch.cat([value.double().flatten() for value in f.state_dict().values()]) for f in (first, again, other)]
    assert torch.equal(states[0], states[1])
    assert not torch.equal(states[0], states[2])


@pytest.mark.parametrize(
    ("dim", "levels", "message"),
    [
        (384, 10, r"dim 384 cannot be halved 10 times \(levels 10\); allowed: levels 1 to 9"),
        (10, 5, r"dim 10 cannot be halved 5 times \(levels 5\); allowed: levels 1 to 4"),
        (1, 2, r"dim 1 cannot be halved 2 times \(levels 2\); allowed: levels 1 to 1"),
        (8, 0, "levels 0 received, allowed: 1 or more"),
        (0, 1, "dim 0 received, allowed: 1 or more"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(dim: int, levels: int, message: str) -> None:
    with pytest.raises(UserError, match=message):
        Glow(dim, levels=levels)


@pytest.mark.parametrize("shape", [(3, 11), (12,), (2, 3, 12)])
def test_wrong_shape_is_refused(shape: tuple[int, ...]) -> None:
    flow = Glow(12)
    for call in (flow, flow.inverse, flow.initialize):
        with pytest.raises(ValueError, match=r"received, allowed: \(batch, 12\)"):
            call(torch.zeros(shape))


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_initialize_refuses_what_is_not_finite(value: float) -> None:
    x = batch()
    x[3, 2] = x[3, 4] = x[5, 1] = value
    flow = Glow(12)
    with pytest.raises(UserError, match="2 of 200 embeddings hold NaN or infinity"):
        flow.initialize(x)
    assert not flow.initialized


def test_initialize_refuses_a_single_row() -> None:
    with pytest.raises(UserError, match=r"batch of 1 row\(s\) received, allowed: 2 or more"):
        Glow(12).initialize(batch(1))


def test_check_finite_names_the_parameter() -> None:
    flow = Glow(12)
    flow.check_finite()
    with torch.no_grad():
        flow.get_parameter("levels.1.step_2.mixing.log_diagonal")[1] = math.nan
    with pytest.raises(UserError, match=r"parameter levels\.1\.step_2\.mixing\.log_diagonal is not finite"):
        flow.check_finite()


def test_check_finite_names_the_first_layer_that_overflows() -> None:
    flow = Glow(12)
    flow.initialize(batch())
    flow.check_finite(batch())
    with torch.no_grad():
        flow.get_parameter("levels.0.step_1.actnorm.log_scale")[0] = 100.0
    flow.check_finite()
    with pytest.raises(UserError, match=r"output of levels\.0\.step_1\.actnorm is not finite"):
        flow.check_finite(batch())
    assert not any(module._forward_hooks for module in flow.modules())

"""The flow's LightningModule, on tensors alone."""

import math

import numpy as np
import pytest
import torch

from flowbert import fit_flow
from flowbert.errors import UserError
from flowbert.modules import FlowModule


def embeddings(count: int = 512, dim: int = 8, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    mix = torch.randn(dim, dim, generator=generator)
    return torch.randn(count, dim, generator=generator) @ mix * 2 + 5


def test_fit_lowers_the_likelihood_bound_and_standardizes() -> None:
    x = embeddings()
    start = fit_flow(x, epochs=1, learning_rate=1e-9, accelerator="cpu")
    fitted = fit_flow(x, epochs=8, learning_rate=1e-3, accelerator="cpu")
    assert start.flow is not None
    assert fitted.flow is not None
    assert fitted.flow.nll(x).mean() < start.flow.nll(x).mean() - 1
    z = fitted.embed(x)
    assert z.mean(0).abs().max() < 0.3
    assert (z.std(0) - 1).abs().max() < 0.3


def test_same_seed_same_flow_and_the_callers_randomness_is_left_alone() -> None:
    x = embeddings()
    torch.manual_seed(7)
    first = fit_flow(x, epochs=1, seed=1, accelerator="cpu").embed(x)
    after = torch.rand(1)
    torch.manual_seed(7)
    assert torch.equal(torch.rand(1), after)
    assert torch.equal(first, fit_flow(x.numpy(), epochs=1, seed=1, accelerator="cpu").embed(x))
    assert not torch.equal(first, fit_flow(x, epochs=1, seed=2, accelerator="cpu").embed(x))


def test_noise_has_the_stated_share_of_the_variance() -> None:
    x = embeddings()
    module = fit_flow(x, epochs=1, noise=0.25, start_size=512, accelerator="cpu")
    assert isinstance(module.noise_std, torch.Tensor)
    assert module.noise_std.item() == pytest.approx(math.sqrt(0.25 * x.var(0).mean().item()), rel=1e-5)


def test_loss_is_bits_per_dimension(monkeypatch: pytest.MonkeyPatch) -> None:
    module = FlowModule(8, noise=0.0)
    logged: dict[str, torch.Tensor] = {}
    monkeypatch.setattr(module, "log_dict", lambda values, **_: logged.update(values))
    x = embeddings(64)
    assert module.flow is not None
    module.flow.initialize(x)
    loss = module.training_step(x, 0)
    assert loss.item() == pytest.approx(module.flow.nll(x).mean().item() / (8 * math.log(2)), rel=1e-6)
    assert logged["step/bits_per_dim"] == pytest.approx(loss.item())


def test_embed_in_any_chunks() -> None:
    x = embeddings(20000)
    module = fit_flow(x[:512], epochs=1, accelerator="cpu")
    whole, part = module.embed(x), module.embed(x[:100])
    np.testing.assert_allclose(whole[:100], part, atol=1e-5)
    assert whole.shape == x.shape


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dim": 10, "levels": 5}, r"dim 10 cannot be halved 5 times"),
        ({"noise": -0.1}, r"noise: received -0.1; allowed: 0 or more"),
        ({"learning_rate": 0.0}, r"learning_rate: received 0.0; allowed: above 0"),
        ({"schedule": "linaer"}, r"did you mean 'linear'"),
        ({"warmup": 1.0}, r"warmup: received 1.0"),
        ({"dim": 8, "mixing": "lou"}, r"did you mean 'lu'"),
        ({"dim": 8, "coupling": "afine"}, r"did you mean 'affine'"),
    ],
)
def test_options_are_checked_at_once(options: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        FlowModule(**options)  # type: ignore[arg-type]


def test_bad_embeddings() -> None:
    with pytest.raises(ValueError, match=r"received shape \(8,\); allowed: \(N, D\)"):
        fit_flow(torch.zeros(8))
    with pytest.raises(UserError, match="hold NaN or infinity"):
        fit_flow(torch.full((64, 8), math.nan), accelerator="cpu")


def test_divergence_is_named() -> None:
    module = FlowModule(8, noise=0.0)
    x = embeddings(64)
    assert module.flow is not None
    module.flow.initialize(x)
    with torch.no_grad():
        next(module.flow.parameters()).fill_(math.nan)
    with pytest.raises(UserError, match=r"parameter levels\.0\.step_0.* is not finite"):
        module.training_step(x, 0)


def test_a_dead_dimension_does_not_drown_the_others() -> None:
    x = torch.randn(512, 8, generator=torch.Generator().manual_seed(0))
    x[:, 3] *= 1e-7
    module = fit_flow(x, epochs=1, learning_rate=1e-9, accelerator="cpu")
    noise = torch.randn(x.shape, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        latents = module.embed(x + module.noise_std * noise)
    assert latents.std(dim=0).max() < 2

"""The whole flow: start, density, precision, and what it refuses."""

import copy
import math

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal, multivariate_t
from torch import Tensor, nn
from torch.testing import assert_close

from flowbert.flows import PRIORS, ActNorm, Glow, bits_per_dim
from flowbert.flows.data_initialized import SHRINKAGE
from helpers import refused


def batch(rows=200, dim=12, seed=0):
    """Correlated rows with unequal scales and a mean."""
    generator = torch.Generator().manual_seed(seed)
    mixing = torch.randn(dim, dim, generator=torch.Generator().manual_seed(99))
    return (
        torch.randn(rows, dim, generator=generator)
        @ mixing
        * torch.linspace(0.1, 3, dim)
        + 4
    )


def equal(first, second):
    states = zip(first.state_dict().values(), second.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in states)


STARTS = [
    ("lu", "rotation", "actnorm"),
    ("lu", "identity", "whitening"),
    ("reverse", "identity", "actnorm"),
    ("random", "identity", "whitening"),
]


@pytest.fixture(params=STARTS, ids="-".join)
def flow(request):
    mixing, mixing_init, init = request.param
    return Glow(12, mixing=mixing, mixing_init=mixing_init, init=init)


def test_initialize_standardizes_the_output_of_every_actnorm(flow):
    x = batch()
    flow.initialize(x)
    outputs: dict[ActNorm, Tensor] = {}
    for module in flow.modules():
        if isinstance(module, ActNorm):
            module.register_forward_hook(
                lambda m, _, out: outputs.__setitem__(m, out[0])
            )
    flow(x)
    assert len(outputs) == 2 * 3 * 3
    # A hidden unit that hardly varies is scaled by up to 1e4 units of its rounding.
    for output in outputs.values():
        mean, std = output.mean(0), output.std(0, correction=0)
        assert_close(mean, torch.zeros_like(mean), atol=1e-3, rtol=0)
        assert_close(std, torch.ones_like(std), atol=1e-3, rtol=0)


def test_initialize_depends_on_its_batch_alone(flow):
    other = copy.deepcopy(flow)
    other.initialize(batch(seed=7))
    other.initialize(batch())
    flow.initialize(batch())
    with pytest.raises(RuntimeError):
        flow.initialize(batch()[:, :-1])
    flow.train()(batch(seed=5) * 9)
    assert equal(flow, other)
    loaded = Glow(**flow.config)
    assert not loaded.initialized
    loaded.load_state_dict(flow.state_dict())
    assert loaded.initialized


@pytest.mark.parametrize("prior", [*PRIORS, "examples.extend.prior.StudentT"])
def test_a_prior_is_a_density_of_rows(prior):
    """In one dimension and in two, where a constant of each dimension counts twice."""
    side = torch.linspace(-50, 50, 2001, dtype=torch.float64)
    for dim in (1, 2):
        z = torch.cartesian_prod(*[side] * dim).reshape(-1, dim)
        with torch.no_grad():
            density = PRIORS.make(prior, dim=dim).double().log_prob(z).exp()
        density = density.reshape([len(side)] * dim)
        for _ in range(dim):
            density = torch.trapezoid(density, side)
        # Tails of a t-distribution beyond 50; a kink of a density, such as Laplace's.
        assert density.item() == pytest.approx(1, abs=2e-3)


def test_density_has_the_prior_of_the_options():
    prior = "examples.extend.prior.StudentT:degrees=5"
    flow, usual = Glow(6, prior=prior).double(), Glow(6).double()
    x = batch(dim=6).double()
    for each in (flow, usual):
        each.initialize(x)
        z, log_det = each(x)
        log_prob = multivariate_normal(np.zeros(6)).logpdf(z.detach())
        if each is flow:
            log_prob = multivariate_t(np.zeros(6), np.eye(6), df=5).logpdf(z.detach())
        # Sums of six float64 numbers.
        assert_close(each.log_prob(x), torch.from_numpy(log_prob) + log_det)
    assert Glow(**flow.config).config["prior"] == prior
    refused(r"^prior: received 'cauchy'; expected normal", Glow, 6, prior="cauchy")


def test_a_whitening_flow_begins_as_the_gaussian_of_its_moments():
    x, other = batch(2000).double(), batch(500, seed=1).double()
    flow = Glow(12, init="whitening").double()
    mean, covariance = x.mean(0), x.T.cov()
    flow.initialize(x[:900], (mean, covariance))
    shrunk = (1 - SHRINKAGE) * covariance
    shrunk += SHRINKAGE * covariance.diagonal().mean() * torch.eye(12)
    gaussian = torch.distributions.MultivariateNormal(mean, shrunk)
    expected = -gaussian.log_prob(other)
    # The actnorms are of 900 rows: they know a variance to 2 / 900, the square of it in nats.
    bits = bits_per_dim((-flow.log_prob(other) - expected).mean().detach(), 12)
    assert abs(bits) < 0.01
    flow.initialize(x)  # its own moments
    weight = flow.get_buffer("front.whitening.weight")
    assert_close(weight.T @ shrunk @ weight, torch.eye(12).double())


@pytest.mark.parametrize("rows", [5, 200])
def test_whitening_of_any_rows_is_finite(rows):
    x = batch(rows)
    x[:, 2] = 7.0  # a direction without variance, and fewer rows than directions
    for sample in (x, x[:1].expand(4, 12)):
        flow = Glow(12, init="whitening")
        flow.initialize(sample)
        z, log_det = flow(sample)
        assert torch.isfinite(z).all()
        assert torch.isfinite(log_det).all()


def test_latent_is_the_leaving_halves_in_order_then_the_rest():
    flow = Glow(
        8, levels=3, depth=1, mixing="reverse"
    ).eval()  # not started: it only reverses
    z, log_det = flow(torch.arange(8.0)[None])
    assert z.tolist() == [[3, 2, 1, 0, 6, 7, 5, 4]]
    assert log_det.tolist() == [0]


def test_float32_round_trip_at_the_size_of_an_encoder():
    flow = Glow(384, mixing_init="rotation")
    x = batch(64, 384)
    flow.initialize(x)
    z, log_det = flow(x)
    back, inverse_log_det = flow.inverse(z)
    # Six rotations and scales between 0.1 and 100 lose about four of seven digits.
    assert_close(back, x, rtol=1e-3, atol=1e-2)
    assert_close(inverse_log_det, -log_det, rtol=1e-4, atol=1e-2)


def test_latents_of_any_number_of_rows():
    flow = Glow(4)
    x = batch(20_000, 4).double()
    flow.initialize(x[:500].float())
    flow.train()
    latents = flow.latents(x)
    assert latents.dtype == torch.float32
    assert flow.training
    assert_close(latents[-5:], flow(x[-5:])[0].detach())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_precision_is_that_of_the_flow_whatever_surrounds_it(dtype):
    x = batch(64, 48)
    flow = Glow(48, mixing_init="rotation", coupling="affine")
    flow.initialize(x)
    expected = [flow.log_prob(x), flow(x)[0], flow.inverse(x)[0]]
    with torch.autocast("cpu", dtype=dtype):
        again = Glow(**flow.config)
        again.initialize(x)
        for result, value in zip(
            [again.log_prob(x), again(x)[0], again.inverse(x)[0]], expected, strict=True
        ):
            assert torch.equal(result, value)
    nn.Sequential(flow).to(dtype).half()
    assert torch.equal(flow.log_prob(x), expected[0])
    assert flow.log_prob(x.to(dtype)).dtype == torch.float32
    assert flow.double().log_prob(x).dtype == torch.float64


BAD = [
    ({"dim": 384, "levels": 10}, "levels: received 10; expected 1 to 9 "),
    ({"dim": 8, "init": "whiten"}, "init: received 'whiten'; .*'whitening'"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD)
def test_bad_arguments(arguments, message):
    refused(message, Glow, **arguments)


def test_bad_batches():
    flow = Glow(12)
    x = batch()
    x[3, 2] = x[3, 4] = x[5, 1] = math.nan
    for rows, message in (
        (x, "200 embedding.*, 2 with NaN"),
        (batch(1), "received 1 "),
    ):
        refused(message, flow.initialize, rows)
    assert not flow.initialized

import math

import torch

from flowbert.losses.nll import bits_per_dim, nll


def test_nll_is_minus_the_transformed_normal_density() -> None:
    generator = torch.Generator().manual_seed(0)
    x, scale = torch.randn(7, 5, generator=generator, dtype=torch.float64), torch.tensor([0.5, 1, 2, 3, 4.0]).double()
    expected = torch.distributions.Normal(0.0, 1 / scale).log_prob(x).sum(1)  # type: ignore[no-untyped-call]
    log_det = scale.log().sum().expand(7)
    torch.testing.assert_close(nll(x * scale, log_det), -expected)


def test_nll_has_one_value_per_row() -> None:
    assert nll(torch.zeros(3, 2), torch.zeros(3)).shape == (3,)


def test_bits_per_dim_of_a_standard_normal_is_its_entropy() -> None:
    entropy = 0.5 * math.log(2 * math.pi * math.e)
    assert math.isclose(bits_per_dim(entropy * 768, 768), 0.5 * math.log2(2 * math.pi * math.e))


def test_bits_per_dim_keeps_the_shape() -> None:
    torch.testing.assert_close(bits_per_dim(torch.tensor([0.0, math.log(2) * 4]), 4), torch.tensor([0.0, 1.0]))

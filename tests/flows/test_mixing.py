import pytest
import torch
from torch import Tensor

from flowbert.errors import UserError
from flowbert.flows import Glow, LULinear, RandomPermutation, Reverse
from flowbert.flows.mixing import MIXINGS


def matrix(layer: torch.nn.Module, dim: int) -> Tensor:
    """W of y = x W."""
    product: Tensor = layer(torch.eye(dim))[0].detach()
    return product


def test_identity_start() -> None:
    assert torch.equal(matrix(LULinear(6), 6), torch.eye(6))


def test_reverse_start_is_the_reverse_layer() -> None:
    assert torch.equal(matrix(LULinear(6, "reverse"), 6), matrix(Reverse(6), 6))


def test_random_start_is_the_random_layer_of_the_same_seed() -> None:
    assert torch.equal(matrix(LULinear(6, "random", seed=4), 6), matrix(RandomPermutation(6, seed=4), 6))


def test_rotation_start_is_orthogonal_and_volume_preserving() -> None:
    layer = LULinear(48, "rotation", seed=2)
    W = matrix(layer, 48)
    torch.testing.assert_close(W @ W.T, torch.eye(48), atol=1e-5, rtol=0)
    assert abs(layer(torch.zeros(1, 48))[1].item()) < 1e-4
    assert not torch.allclose(W, matrix(LULinear(48, "rotation", seed=3), 48), atol=0.1)


def test_weight_is_the_product_of_its_factors() -> None:
    layer = LULinear(5, "rotation").double()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    P = torch.eye(5, dtype=torch.float64)[:, layer.permutation]
    L = layer.triangles.detach().tril(-1) + torch.eye(5, dtype=torch.float64)
    U = layer.triangles.detach().triu(1) + torch.diag(layer.sign * layer.log_diagonal.detach().exp())
    torch.testing.assert_close(layer(torch.eye(5, dtype=torch.float64))[0].detach(), P @ L @ U)


def test_unused_diagonal_gets_no_gradient_and_has_no_effect() -> None:
    layer = LULinear(5, "rotation")
    x = torch.randn(3, 5, generator=torch.Generator().manual_seed(0))
    z = layer(x)[0]
    z.square().sum().backward()
    assert layer.triangles.grad is not None
    assert torch.equal(layer.triangles.grad.diagonal(), torch.zeros(5))
    with torch.no_grad():
        layer.triangles.diagonal().fill_(9.0)
    assert torch.equal(layer(x)[0], z)
    torch.testing.assert_close(layer.inverse(z)[0], x)


def test_permutation_and_sign_are_saved_but_not_trained() -> None:
    layer = LULinear(5, "rotation")
    assert {name for name, _ in layer.named_parameters()} == {"triangles", "log_diagonal"}
    assert {"permutation", "sign"} <= set(layer.state_dict())


def test_no_global_random_state() -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    for name in ("lu", "random"):
        MIXINGS[name](6, "rotation", 1)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(("name", "layer"), [("lu", LULinear), ("reverse", Reverse), ("random", RandomPermutation)])
def test_mixings_by_name(name: str, layer: type[torch.nn.Module]) -> None:
    assert type(MIXINGS[name](4, "identity", 0)) is layer


def test_unknown_names_are_refused_with_what_is_allowed() -> None:
    with pytest.raises(UserError, match=r"mixing: received 'revers'; allowed: lu, reverse, random.*'reverse'"):
        Glow(4, mixing="revers")
    with pytest.raises(UserError, match=r"mixing_init: received 'pca'; allowed: identity, reverse, random, rotation"):
        Glow(4, mixing_init="pca")

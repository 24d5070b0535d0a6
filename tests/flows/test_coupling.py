import pytest
import torch
from torch import Tensor

from flowbert.errors import UserError
from flowbert.flows import AdditiveCoupling, AffineCoupling, Glow
from flowbert.flows.coupling import COUPLINGS, CouplingNet


@pytest.fixture
def x() -> Tensor:
    return torch.randn(40, 6, generator=torch.Generator().manual_seed(0)) * 2 + 1


def moved(coupling: AdditiveCoupling | AffineCoupling) -> AdditiveCoupling | AffineCoupling:
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in coupling.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return coupling.eval()


def test_additive_starts_as_the_identity(x: Tensor) -> None:
    z, log_det = AdditiveCoupling(6, 8)(x)
    assert torch.equal(z, x)
    assert torch.equal(log_det, torch.zeros(40))


def test_affine_starts_as_a_constant_scale(x: Tensor) -> None:
    z, _ = AffineCoupling(6, 8)(x)
    torch.testing.assert_close(z, torch.cat([x[:, :3], x[:, 3:] * torch.sigmoid(torch.tensor(2.0))], 1))


@pytest.mark.parametrize("kind", [AdditiveCoupling, AffineCoupling])
def test_first_half_passes_and_second_half_changes(
    kind: type[AdditiveCoupling] | type[AffineCoupling], x: Tensor
) -> None:
    z, _ = moved(kind(6, 8))(x)
    assert torch.equal(z[:, :3], x[:, :3])
    assert (z[:, 3:] != x[:, 3:]).all()


def test_affine_outputs_alternate_shift_and_scale(x: Tensor) -> None:
    coupling = moved(AffineCoupling(6, 8))
    z, log_det = coupling(x)
    output = coupling.net(x[:, :3])
    scale = torch.sigmoid(output[:, [1, 3, 5]] + 2)
    torch.testing.assert_close(z[:, 3:], (x[:, 3:] + output[:, [0, 2, 4]]) * scale)
    torch.testing.assert_close(log_det, scale.log().sum(1))


def test_affine_log_det_survives_a_tiny_scale(x: Tensor) -> None:
    coupling = AffineCoupling(6, 8).eval()
    with torch.no_grad():
        coupling.net.bias_out.fill_(-200.0)
    assert torch.isfinite(coupling(x)[1]).all()


def test_net_normalizes_what_enters_each_relu(x: Tensor) -> None:
    net = CouplingNet(6, 16, 6)
    net(x)
    hidden = net.actnorm_1(x @ net.weight_1)[0]
    torch.testing.assert_close(hidden.mean(0), torch.zeros(16), atol=1e-4, rtol=0)
    second = net.actnorm_2(hidden.relu() @ net.weight_2)[0]
    torch.testing.assert_close(second.std(0, correction=0), torch.ones(16), atol=1e-3, rtol=0)


def test_net_start_depends_on_the_seed_only() -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    first, again, other = CouplingNet(64, 64, 4, seed=1), CouplingNet(64, 64, 4, seed=1), CouplingNet(64, 64, 4, seed=2)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first.weight_1, again.weight_1)
    assert not torch.equal(first.weight_1, other.weight_1)
    assert abs(first.weight_1.std().item() - 0.05) < 0.003
    assert not first.weight_out.any()


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("name", COUPLINGS)
def test_sizes_without_two_halves_are_refused(name: str, dim: int) -> None:
    with pytest.raises(UserError, match=f"dim {dim} received, allowed: at least 2"):
        COUPLINGS[name](dim, 8, 0)


def test_unknown_coupling_is_refused() -> None:
    with pytest.raises(UserError, match=r"coupling: received 'afine'; allowed: additive, affine.*'affine'"):
        Glow(4, coupling="afine")

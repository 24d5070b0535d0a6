import pytest
import torch

from flowbert.errors import UserError
from flowbert.modules import SimCSEModule
from flowbert.modules.heads import DenseTanh


def test_published_form_and_seeded_start() -> None:
    state = torch.get_rng_state()
    head, again, other = DenseTanh(64, seed=1), DenseTanh(64, seed=1), DenseTanh(64, seed=2)
    assert torch.equal(head.dense.weight, again.dense.weight)
    assert not torch.equal(head.dense.weight, other.dense.weight)
    assert head.dense.weight.std().item() == pytest.approx(0.02, rel=0.05)
    assert not head.dense.bias.any()
    del state
    x = torch.randn(2, 3, 64)
    torch.testing.assert_close(head(x), torch.tanh(x @ head.dense.weight.T + head.dense.bias))


def test_names() -> None:
    with pytest.raises(UserError, match=r"received 'mpl'; allowed: mlp_train_only, mlp, none \(did you mean 'mlp'"):
        SimCSEModule(head="mpl")

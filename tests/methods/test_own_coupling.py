"""A checkpoint with a user's own coupling, named by its import path."""

import sys

import torch

from fits import fit, make_module
from flowbert.flows import AdditiveCoupling
from flowbert.methods import FlowModule
from helpers import refused


class Weak(AdditiveCoupling):
    """An additive coupling whose shift is a share of the network's output."""

    def __init__(self, dim: int, hidden_dim: int, seed: int = 0, share: float = 0.5):
        super().__init__(dim, hidden_dim, seed)
        self.share = share

    def shift_and_log_scale(self, output):
        return super().shift_and_log_scale(self.share * output)


WEAK = f"{__name__}.Weak"


def shares(flow):
    return {module.share for module in flow.modules() if isinstance(module, Weak)}


def test_a_checkpoint_imports_no_code(tmp_path, monkeypatch):
    trained = fit(tmp_path, module=make_module(coupling=f"{WEAK}:share=0.25"))
    path = tmp_path / "x.ckpt"
    trained.save_checkpoint(path)
    loaded = FlowModule.load_from_checkpoint(path, weights_only=True)
    assert shares(loaded.flow) == {0.25}
    for name, value in trained.lightning_module.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], value), name
    monkeypatch.delitem(sys.modules, __name__)
    refused(
        r"coupling: .* imported before",
        FlowModule.load_from_checkpoint,
        tmp_path / "x.ckpt",
        weights_only=True,
    )

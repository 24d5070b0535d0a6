"""A user's own coupling, named by its import path, in every place that a flow is made in."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from fits import fit, make_module
from flowbert.flows import AdditiveCoupling, Glow
from flowbert.maps import Flow, load_map, make_map, save_map
from flowbert.methods import FlowModule
from helpers import refused, rows


class Weak(AdditiveCoupling):
    """An additive coupling whose shift is a share of the network's output."""

    def __init__(
        self, dim: int, hidden_dim: int, seed: int = 0, share: float = 0.5
    ) -> None:
        super().__init__(dim, hidden_dim, seed)
        self.share = share

    def shift_and_log_scale(self, output: Tensor) -> tuple[Tensor, Tensor]:
        return super().shift_and_log_scale(self.share * output)


WEAK = f"{__name__}.Weak"


def shares(flow: Glow) -> set[float]:
    return {module.share for module in flow.modules() if isinstance(module, Weak)}


def test_a_text_has_one_form() -> None:
    flow = Glow(8, coupling=f" {WEAK}:share=0.5")
    assert flow.config["coupling"] == WEAK
    assert shares(flow) == {0.5}
    module = FlowModule(8, coupling=f"{WEAK}:share=0.50")
    assert module.hparams["coupling"] == WEAK
    for wrong, message in (
        (f"{WEAK}:shar=1", "the option 'shar'; expected share"),
        (
            "collections.Counter",
            "coupling: received 'collections.Counter'; expected a class",
        ),
        ("additiv", "coupling: received 'additiv'; .*'additive'"),
    ):
        refused(message, FlowModule, 8, coupling=wrong)


def test_a_map_and_its_file(tmp_path: Path) -> None:
    text = f"flow:coupling=[{WEAK}:share=0.25]:depth=1:levels=1:steps=2"
    fitted = make_map(text).set_params(accelerator="cpu").fit(rows(80, 6))
    assert isinstance(fitted, Flow)
    assert fitted.text == text
    assert shares(fitted.flow_) == {0.25}
    save_map(fitted, tmp_path / "map.safetensors")
    loaded = load_map(tmp_path / "map.safetensors")
    assert loaded.text == text
    x = rows(9, 6, seed=1)
    assert np.array_equal(loaded.transform(x), fitted.transform(x))


def test_a_checkpoint_imports_no_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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

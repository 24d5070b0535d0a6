import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from flowbert.errors import UserError
from flowbert.flows import Glow, load_flow, save_flow
from flowbert.flows.serialization import FORMAT
from flowbert.io.container import write_container


@pytest.fixture
def flow() -> Glow:
    flow = Glow(12, levels=2, depth=1, width=8, mixing_init="rotation", coupling="affine", seed=3)
    flow.initialize(torch.randn(30, 12, generator=torch.Generator().manual_seed(0)) * 3 + 1)
    return flow


def test_round_trip(flow: Glow, tmp_path: Path) -> None:
    metadata = {"encoder": {"path": "é", "layers": [1, -1]}, "seed": 3}
    file = save_flow(flow, tmp_path / "new" / "folder", metadata)
    assert file == tmp_path / "new" / "folder" / "flow.safetensors"
    loaded, read = load_flow(file.parent)
    assert read == metadata
    assert loaded.config == flow.config
    assert loaded.initialized
    assert not loaded.training
    x = torch.randn(5, 12)
    assert torch.equal(loaded(x)[0], flow(x)[0])


def test_file_name_may_be_given(flow: Glow, tmp_path: Path) -> None:
    assert save_flow(flow, tmp_path / "my.safetensors") == tmp_path / "my.safetensors"
    assert load_flow(str(tmp_path / "my.safetensors"))[1] == {}


def test_dtype_is_kept(flow: Glow, tmp_path: Path) -> None:
    save_flow(flow.double(), tmp_path)
    assert {p.dtype for p in load_flow(tmp_path)[0].parameters()} == {torch.float64}


def test_unstarted_flow_stays_unstarted(tmp_path: Path) -> None:
    save_flow(Glow(8, levels=1), tmp_path)
    assert not load_flow(tmp_path)[0].initialized


def test_nothing_half_written(flow: Glow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_flow(flow, tmp_path, {"version": 1})

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        save_flow(flow, tmp_path, {"version": 2})
    assert [path.name for path in tmp_path.iterdir()] == ["flow.safetensors"]
    assert load_flow(tmp_path)[1] == {"version": 1}


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nowhere.flow\.safetensors: no such file"):
        load_flow(tmp_path / "nowhere")


def test_unreadable_file(tmp_path: Path) -> None:
    (tmp_path / "flow.safetensors").write_bytes(b"not tensors")
    with pytest.raises(UserError, match=r"flow\.safetensors: the flow is damaged .*run `fit` again"):
        load_flow(tmp_path)


def test_foreign_file(tmp_path: Path) -> None:
    save_file({"a": torch.zeros(1)}, tmp_path / "flow.safetensors")
    with pytest.raises(UserError, match=r"format None.*not a flow of this version; allowed: 'flowbert-flow-2'"):
        load_flow(tmp_path)


@pytest.mark.parametrize(
    "config", [{"dim": 16}, {"dim": 12, "colour": 1}, None, {"dim": 12, "levels": 5}, {"dim": "x"}]
)
def test_configuration_that_does_not_fit(flow: Glow, tmp_path: Path, config: dict[str, object] | None) -> None:
    write_container(tmp_path / "flow.safetensors", FORMAT, flow.state_dict(), {"config": config, "metadata": {}})
    with pytest.raises(UserError, match=r"flow\.safetensors: the flow in it is of another version") as error:
        load_flow(tmp_path)
    assert "\n" not in str(error.value)

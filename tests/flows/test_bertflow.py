"""Flows of pytorch-bertflow: the same latents, and nothing but tensors is read."""

import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.bertflow import State, latents, random_state

from flowbert.errors import UserError
from flowbert.flows.bertflow import read_bertflow


def saved(state: object, path: Path) -> Path:
    torch.save(state, path)
    return path


@pytest.mark.parametrize(
    ("dim", "levels", "depth", "width"), [(64, 3, 3, 32), (48, 2, 3, 32), (8, 1, 1, 5), (24, 2, 2, 7)]
)
def test_latents_are_the_same(tmp_path: Path, dim: int, levels: int, depth: int, width: int) -> None:
    state = random_state(dim, levels, depth, width)
    flow = read_bertflow(saved(state, tmp_path / "glow.bin"))
    assert (flow.config["levels"], flow.config["depth"], flow.config["width"]) == (levels, depth, width)
    assert flow.config["mixing"] == "reverse"
    x = torch.randn(50, dim, generator=torch.Generator().manual_seed(1)) * 2 + 1
    expected = latents(state, x)
    torch.testing.assert_close(flow.latents(x), expected.float(), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(flow.double()(x)[0], expected, atol=1e-10, rtol=1e-10)
    assert not torch.allclose(expected, latents(random_state(dim, levels, depth, width, seed=1), x), atol=0.1)


def test_other_permutations_and_whole_models(tmp_path: Path) -> None:
    state = random_state(16, 2, 2, 4)
    generator = torch.Generator().manual_seed(3)
    for name, value in state.items():
        if "invconv" in name:
            state[name] = value[torch.randperm(len(value), generator=generator)]
    x = torch.randn(9, 16)
    whole = {f"glow.{name}": value for name, value in state.items()} | {"transformer.weight": torch.zeros(3)}
    saved(whole, tmp_path / "glow.bin")
    flow = read_bertflow(tmp_path)
    assert flow.config["mixing"] == "random"
    torch.testing.assert_close(flow.latents(x), latents(state, x).float(), atol=1e-5, rtol=1e-5)


def without(state: State, name: str) -> State:
    return {other: value for other, value in state.items() if other != name}


def test_what_is_no_such_flow_is_one_line(tmp_path: Path) -> None:
    good, step = random_state(8, 1, 1, 4), "blocks.0.flows.0"
    convolution = f"{step}.invconv.weight"
    cases: list[tuple[object, str]] = [
        ({}, r"no flow of pytorch-bertflow \(lacks blocks\.0"),
        (without(good, f"{step}.coupling.net.6.scale"), r"lacks .*net\.6\.scale"),
        (good | {f"{step}.actnorm.loc": torch.zeros(1, 6, 1, 1)}, "no flow of pytorch-bertflow .*size mismatch"),
        (good | {convolution: torch.randn(8, 8, 1, 1)}, "a convolution is no permutation"),
        (good | {convolution: torch.zeros(8, 8, 1, 1)}, "a convolution is no permutation"),
        (good | {f"{step}.actnorm.initialized": torch.tensor(0)}, "has seen no data yet"),
        (good | {f"{step}.coupling.net.6.scale": torch.full((1, 4, 1, 1), torch.nan)}, "is not finite"),
        ([1, 2], "holds no state dict"),
        ({"a": 1}, "holds no state dict"),
    ]
    for content, message in cases:
        with pytest.raises(UserError, match=message):
            read_bertflow(saved(content, tmp_path / "glow.bin"))
    with pytest.raises(UserError, match="no such file"):
        read_bertflow(tmp_path / "none.bin")


class Harmful:
    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (Path("touched"),))


def test_nothing_is_unpickled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for path in (saved({"a": Harmful()}, tmp_path / "a.bin"), tmp_path / "b.bin", tmp_path / "c.bin"):
        if path.name == "b.bin":
            path.write_bytes(pickle.dumps(Harmful()))
        if path.name == "c.bin":
            path.write_text("no tensors")
        with pytest.raises(UserError, match="cannot be read as tensors alone"):
            read_bertflow(path)
    assert not Path("touched").exists()

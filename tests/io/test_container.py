"""No bit of a file can change unseen, and equal content gives equal bytes."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from flowbert.calibration import Calibration
from flowbert.errors import UserError
from flowbert.evaluation.scores import load_items, save_items
from flowbert.flows import Glow, load_flow, save_flow
from flowbert.io.container import read_container, write_container
from flowbert.methods import make_calibration

TENSORS = {
    "z.half": torch.arange(5, dtype=torch.float16),
    "a": torch.arange(12, dtype=torch.float64).reshape(3, 4).t(),
    "b": torch.tensor(7),
    "flag": torch.tensor([True, False, True]),
    "bytes": torch.tensor([1, 2, 3], dtype=torch.uint8),
    "brain": torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
    "none": torch.empty(0, 3),
}
METADATA = {"é": [1, 2.5, None, "\u2028"], "z": {"b": 1, "a": "x" * 50}}


def read(path: Path) -> object:
    return read_container(path, "test-1", "thing", "make it again")


def container(path: Path) -> Path:
    return write_container(path, "test-1", TENSORS, METADATA)


def flow(path: Path) -> Path:
    return save_flow(Glow(4, levels=1, depth=1, width=2, seed=3), path, {"encoder": "é"})


def calibration(path: Path) -> Path:
    x = torch.randn(20, 3, generator=torch.Generator().manual_seed(0))
    return make_calibration("whitening-2:shrinkage=0.1").fit(x).save(path)


def item_scores(path: Path) -> Path:
    scores = np.arange(5.0)
    return save_items(path, {"raw": scores**2, "é": -scores})


KINDS: dict[str, tuple[Callable[[Path], Path], Callable[[Path], object]]] = {
    "container": (container, read),
    "flow": (flow, load_flow),
    "calibration": (calibration, Calibration.load),
    "item scores": (item_scores, load_items),
}


def refused(load: Callable[[Path], object], path: Path) -> None:
    with pytest.raises(UserError) as caught:
        load(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "again" in message
    assert "\n" not in message


def test_round_trip_and_what_safetensors_reads(tmp_path: Path) -> None:
    path = write_container(tmp_path / "new" / "x.safetensors", "test-1", TENSORS, METADATA)
    metadata, tensors = read_container(path, "test-1", "thing", "make it again")
    assert metadata == METADATA
    for found in (tensors, load_file(path)):
        assert found.keys() == TENSORS.keys()
        for name, tensor in TENSORS.items():
            assert found[name].dtype == tensor.dtype
            assert torch.equal(found[name], tensor)
    arrays = {name: tensor.numpy() for name, tensor in TENSORS.items() if tensor.dtype != torch.bfloat16}
    assert read_container(write_container(path, "test-1", arrays), "test-1", "", "")[1]["a"].shape == (4, 3)


@pytest.mark.parametrize("kind", KINDS)
def test_no_bit_can_flip_unseen(tmp_path: Path, kind: str) -> None:
    write, load = KINDS[kind]
    path = write(tmp_path / "x.safetensors")
    good = path.read_bytes()
    load(path)
    for place in range(len(good)):
        spoiled = bytearray(good)
        spoiled[place] ^= 1 << (place % 8)
        path.write_bytes(spoiled)
        refused(load, path)
    header = 8 + int.from_bytes(good[:8], "little")
    for place in range(8 * header):  # every bit of the header
        if place % 7 == 0:
            spoiled = bytearray(good)
            spoiled[place // 8] ^= 1 << (place % 8)
            path.write_bytes(spoiled)
            refused(load, path)


@pytest.mark.parametrize("kind", KINDS)
def test_no_cut_and_no_more_bytes(tmp_path: Path, kind: str) -> None:
    write, load = KINDS[kind]
    path = write(tmp_path / "x.safetensors")
    good = path.read_bytes()
    cuts = (good[:size] for size in range(0, len(good), 3))
    for spoiled in (*cuts, good[:-1], good + b"\0", good[1:], good + good, b"hello " * 100, b"\0" * 100):
        path.write_bytes(spoiled)
        refused(load, path)


@pytest.mark.parametrize("kind", KINDS)
def test_files_of_another_kind_or_without_digest_are_refused(tmp_path: Path, kind: str) -> None:
    _, load = KINDS[kind]
    for other, (write, _) in KINDS.items():
        if other != kind:
            refused(load, write(tmp_path / "other.safetensors"))
    for metadata in (None, {"format": f"flowbert-{kind}-1", "config": "{}"}):
        save_file({"a": torch.zeros(2)}, tmp_path / "old.safetensors", metadata)
        refused(load, tmp_path / "old.safetensors")
    with pytest.raises(UserError, match="no such file"):
        load(tmp_path / "nowhere.safetensors")


def test_a_file_that_cannot_be_read_is_not_called_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = container(tmp_path / "x")

    def failing(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Path, "open", failing)
    with pytest.raises(UserError, match=r"x: the thing cannot be read \(Input/output error\)"):
        read(path)


_WRITE_ALL = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import importlib.util
spec = importlib.util.spec_from_file_location("kinds", sys.argv[2])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
for name, (write, _) in module.KINDS.items():
    write(Path(sys.argv[3]) / f"{name}.safetensors")
"""


def test_bytes_depend_on_the_content_alone(tmp_path: Path) -> None:
    """Not on the process: hash seeds differ."""
    here, there = tmp_path / "here", tmp_path / "there"
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    command = [sys.executable, "-c", _WRITE_ALL, str(Path.cwd()), __file__, str(there)]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONHASHSEED": seed})
    for name, (write, _) in KINDS.items():
        file = f"{name}.safetensors"
        write(here / file)
        assert (here / file).read_bytes() == (there / file).read_bytes()

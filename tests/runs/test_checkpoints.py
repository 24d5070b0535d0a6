"""A file given as a checkpoint is read or refused in one short line; nothing in it is ever run."""

import datetime
import random
import warnings
from pathlib import Path

import pytest
import torch

from flowbert.errors import UserError
from flowbert.runs.checkpoints import SavedCheckpoint

GOOD = {"encoder_key": {"a": "x"}, "state_dict": {"w": torch.ones(5)}, "hyper_parameters": {"z": [1, 2.5, None]}}


def refusal(path: Path) -> str:
    with pytest.raises(UserError) as caught:
        SavedCheckpoint.read(path)
    message = str(caught.value)
    assert message.startswith(f"ckpt_path: {path} is not a checkpoint of flowbert")
    assert "\n" not in message
    assert len(message) < 300 + len(str(path))
    return message


@pytest.mark.parametrize("foreign", [print, datetime.datetime(2020, 1, 1), Path("x")], ids=type)
def test_foreign_objects(tmp_path: Path, foreign: object) -> None:
    torch.save({**GOOD, "foreign": foreign}, tmp_path / "x.ckpt")
    message = refusal(tmp_path / "x.ckpt")
    assert "only these are read, no code of a checkpoint is ever run" in message
    assert "weights_only" not in message


@pytest.mark.parametrize("content", [[1], torch.zeros(2), {"a": 1}, "text"])
def test_other_content(tmp_path: Path, content: object) -> None:
    torch.save(content, tmp_path / "x.ckpt")
    assert "names no encoder" in refusal(tmp_path / "x.ckpt")


def test_damage_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "x.ckpt"
    torch.save(GOOD, path)
    good = path.read_bytes()
    assert SavedCheckpoint.read(path).content.keys() == GOOD.keys()
    rng = random.Random(0)
    for _ in range(300):
        spoiled = bytearray(good[: rng.choice([len(good), rng.randrange(len(good))])])
        if len(spoiled) == len(good):
            spoiled[rng.randrange(len(good))] ^= 1 << rng.randrange(8)
        path.write_bytes(spoiled)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of torch, about the pickle protocol that a flip claims
            try:
                SavedCheckpoint.read(path)  # the padding of the archive does not count
            except UserError:
                refusal(path)

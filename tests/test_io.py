"""Files appear whole or not at all, and damage is seen."""

import os
import stat
from contextlib import suppress

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from flowbert.io import (
    digest,
    load_tensors,
    read_json,
    save_tensors,
    sentences_digest,
    write_atomically,
    write_json,
    write_new_folder,
)
from helpers import refused

TENSORS = {
    "b.half": torch.arange(3, dtype=torch.float16),
    "a": torch.arange(6, dtype=torch.float64).reshape(2, 3).t(),
    "number": torch.tensor(7),
    "flags": torch.tensor([True, False]),
    "none": torch.empty(0, 3),
}
METADATA = {"é": [1, 2.5, None, "\u2028"], "z": {"b": 1, "a": "x"}}


def write_folder(path, text="new"):
    with write_new_folder(path) as temporary:
        (temporary / "within").mkdir()
        (temporary / "within" / "b.txt").write_text(text)


def write_file(path, text="new"):
    with write_atomically(path) as temporary:
        temporary.write_text(text)


def test_a_folder_is_new_or_empty(tmp_path, monkeypatch):
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "target")
    for name in ("empty", "link", "new/folder"):
        write_folder(tmp_path / name)
        assert (tmp_path / name / "within" / "b.txt").read_text() == "new"
        refused("exists; expected a new folder", write_folder, tmp_path / name)
    assert (tmp_path / "link").is_symlink()
    (tmp_path / "file").touch()
    refused("file: exists; expected a new folder", write_folder, tmp_path / "file")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    refused("exists; expected a new folder", write_folder, ".")


def test_an_error_leaves_what_was_there(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    write_file(tmp_path / "a.txt", "older")
    monkeypatch.setattr(os, "replace", fail)
    for write, name in ((write_file, "a.txt"), (write_folder, "folder")):
        with pytest.raises(OSError, match="No space left"):
            write(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
    assert (tmp_path / "a.txt").read_text() == "older"


@pytest.fixture(params=[0o022, 0o077])
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def test_permissions_are_those_of_the_umask(umask, tmp_path):
    save_tensors(tmp_path / "a", "thing", TENSORS)
    write_json(tmp_path / "b", {})
    for path in tmp_path.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask


@pytest.mark.parametrize("exists", [True, False])
def test_the_target_of_a_link_is_written(exists, tmp_path):
    target, link, other = (tmp_path / name for name in ("disk/target", "link", "other"))
    if exists:
        write_file(target, "older")
    link.symlink_to("disk/target")
    other.symlink_to(link)
    for path in (link, other):
        write_file(path, path.name)
        assert target.read_text() == path.name
        assert not target.is_symlink()
    assert link.is_symlink()
    assert other.is_symlink()
    assert [each.name for each in target.parent.iterdir()] == ["target"]


def test_tensors_round_trip(tmp_path, monkeypatch):
    path = tmp_path / "a.safetensors"
    save_tensors(path, "thing", TENSORS, **METADATA)
    tensors, metadata = load_tensors(path, "thing")
    assert metadata == METADATA
    assert tensors.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert tensors[name].dtype == tensor.dtype
        assert torch.equal(tensors[name], tensor)
    # Equal content gives equal bytes, in whatever order it is given.
    again = tmp_path / "b.safetensors"
    given_last = dict(reversed(TENSORS.items()))
    save_tensors(again, "thing", given_last, **dict(reversed(METADATA.items())))
    assert again.read_bytes() == path.read_bytes()
    refused("not a saved other", load_tensors, path, "other")
    refused("no such file", load_tensors, tmp_path / "c", "thing")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert load_tensors("~/a.safetensors", "thing")[1] == METADATA


def test_no_damage_is_unseen(tmp_path):
    path = tmp_path / "a.safetensors"
    save_tensors(path, "thing", TENSORS, **METADATA)
    intact = path.read_bytes()
    damaged = [intact[:size] for size in range(0, len(intact), 50)]
    damaged += [intact + b"\0", intact[1:], intact + intact]
    for place in range(0, len(intact), 7):
        flipped = bytearray(intact)
        flipped[place] ^= 1 << place % 8
        damaged.append(bytes(flipped))
    for each in damaged:
        path.write_bytes(each)
        refused(r"a\.safetensors: ", load_tensors, path, "thing")


@settings(max_examples=50, deadline=None)
@given(*[st.lists(st.text("ab\0é\ud800", max_size=3), max_size=3)] * 2)
def test_digests_are_of_the_content(first, second):
    equal = first == second
    with suppress(UnicodeEncodeError):  # half of a surrogate pair is no sentence
        assert (sentences_digest(first) == sentences_digest(second)) == equal
    assert (digest(first) == digest(second)) == equal


SCHEMA = {"name": str, "count": (int, 3), "prompt": (str, None)}


def test_json_is_read_against_a_schema(tmp_path):
    write_json(tmp_path / "a.json", {"name": "é", "more": [1]})
    read = read_json(tmp_path / "a.json", SCHEMA)
    assert read == {"name": "é", "more": [1], "count": 3, "prompt": None}
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "a.json", {"value": float("nan")})
    assert read_json(tmp_path / "a.json")["name"] == "é"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ('{"a": ' + "9" * 5000 + "}", "not JSON"),
        ("[]", "expected an object"),
        ("{}", "lacks 'name'"),
        ('{"name": 3}', "name is 3; expected a str"),
        ('{"name": "a", "count": "4"}', "count is '4'; expected a int"),
    ],
)
def test_json_mistakes(text, message, tmp_path):
    path = tmp_path / "a.json"
    path.write_text(text)
    refused(f"^{path}: .*{message}", read_json, path, SCHEMA)
    refused("cannot be read", read_json, tmp_path / "none.json", SCHEMA)

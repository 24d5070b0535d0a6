"""New folders appear whole or not at all, and no folder with files is replaced."""

import os

import pytest

from flowbert.io import write_new_folder
from helpers import refused


def write(path):
    with write_new_folder(path) as temporary:
        (temporary / "within").mkdir()
        (temporary / "within" / "b.txt").write_text("new")


def test_a_folder_is_new_or_empty(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "target")
    for name in ("empty", "link", "new/folder"):
        write(tmp_path / name)
        assert (tmp_path / name / "within" / "b.txt").read_text() == "new"
        refused("exists; expected a new folder", write, tmp_path / name)
    assert (tmp_path / "link").is_symlink()
    (tmp_path / "file").touch()
    refused("file: exists; expected a new folder", write, tmp_path / "file")


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_an_error_leaves_nothing(call, tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(OSError, match="No space left"):
        write(tmp_path / "target")
    assert not any(tmp_path.iterdir())

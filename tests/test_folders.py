"""Files are whole at any time; new folders appear whole or not at all, and replace nothing."""

import os
import signal
from multiprocessing import get_context

import pytest

from flowbert.io import write_atomically, write_new_folder
from helpers import refused


def write_folder(path, text="new"):
    with write_new_folder(path) as temporary:
        (temporary / "within").mkdir()
        (temporary / "within" / "b.txt").write_text(text)


def write_file(path, text="new"):
    with write_atomically(path) as temporary:
        temporary.write_text(text)


def test_a_folder_is_new_or_empty(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "target")
    for name in ("empty", "link", "new/folder"):
        write_folder(tmp_path / name)
        assert (tmp_path / name / "within" / "b.txt").read_text() == "new"
        refused("exists; expected a new folder", write_folder, tmp_path / name)
    assert (tmp_path / "link").is_symlink()
    (tmp_path / "file").touch()
    refused("file: exists; expected a new folder", write_folder, tmp_path / "file")


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_an_error_leaves_what_was_there(call, tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    write_file(tmp_path / "a.txt", "older")
    monkeypatch.setattr(os, call, fail)
    for write, name in ((write_file, "a.txt"), (write_folder, "folder")):
        with pytest.raises(OSError, match="No space left"):
            write(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
    assert (tmp_path / "a.txt").read_text() == "older"


def write_until_killed(write, path, count):
    """Write, and be killed at the call of this number that changes names."""
    left = [count]
    replace = os.replace

    def limited(*given):
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left[0] -= 1
        return replace(*given)

    os.replace = limited  # type: ignore[assignment]
    write(path)


@pytest.mark.parametrize("count", [0, 1])
def test_a_kill_leaves_whole_ones(count, tmp_path):
    write_file(tmp_path / "a.txt", "older")
    for write, name in ((write_file, "a.txt"), (write_folder, "folder")):
        arguments = write, tmp_path / name, count
        process = get_context("fork").Process(target=write_until_killed, args=arguments)
        process.start()
        process.join()
        assert process.exitcode == (0 if count else -signal.SIGKILL)
    assert (tmp_path / "a.txt").read_text() == ("new" if count else "older")
    if count:
        assert (tmp_path / "folder" / "within" / "b.txt").read_text() == "new"
    else:
        assert not (tmp_path / "folder").exists()

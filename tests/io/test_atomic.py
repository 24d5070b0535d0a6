"""New files and folders appear whole, with the permissions that the umask gives, whenever the writer is killed."""

import ctypes
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from flowbert.io.atomic import folder_written_atomically, written_atomically

_EVENTS = ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "shutil.rmtree")


def write_file(target: Path, text: str) -> None:
    with written_atomically(target) as temporary:
        temporary.write_text(text * 1000)


def write_folder(target: Path, text: str) -> None:
    with folder_written_atomically(target) as temporary:
        (temporary / "inner").mkdir()
        for name in ("a.txt", "inner/b.txt"):
            (temporary / name).write_text(text * 1000)


def content(target: Path) -> list[str]:
    files = [target] if target.is_file() else sorted(path for path in target.rglob("*") if path.is_file())
    return [file.read_text() for file in files]


@pytest.fixture(params=[0o022, 0o027, 0o077, 0o002, 0o000])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def test_permissions_are_those_of_the_umask(tmp_path: Path, umask: int) -> None:
    write_file(tmp_path / "new" / "a.txt", "x")
    write_folder(tmp_path / "folder", "x")
    with written_atomically(tmp_path / "b.safetensors") as temporary:
        save_file({"a": torch.zeros(2)}, temporary)  # it puts a private file of its own there
    for path in tmp_path.rglob("*"):
        full = 0o777 if path.is_dir() else 0o666
        assert path.stat().st_mode & 0o777 == full & ~umask, path


@pytest.mark.parametrize("write", [write_file, write_folder])
@pytest.mark.parametrize("exchange", [True, False])
def test_success_leaves_the_target_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path, str], None], exchange: bool
) -> None:
    if not exchange:
        monkeypatch.setattr(ctypes, "CDLL", lambda _: object())  # a C library without renameat2
    for text in ("a", "b", "c"):
        write(tmp_path / "target", text)
        assert set(content(tmp_path / "target")) == {text * 1000}
        assert [path.name for path in tmp_path.iterdir()] == ["target"]


@pytest.mark.parametrize("write", [write_file, write_folder])
def test_an_error_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path, str], None]
) -> None:
    write(tmp_path / "target", "old")

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        write(tmp_path / "target", "new")
    assert set(content(tmp_path / "target")) == {"old" * 1000}
    assert [path.name for path in tmp_path.iterdir()] == ["target"]


def killed_at(step: int, write: Callable[[Path, str], None], target: Path, text: str) -> bool:
    """Write in a process that dies at its ``step``-th look at the file system; whether it died."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    count = 0

    def hook(event: str, _: object) -> None:
        nonlocal count
        if event in _EVENTS:
            count += 1
            if count == step:
                os._exit(9)

    try:
        sys.addaudithook(hook)
        write(target, text)
    finally:
        os._exit(0)


@pytest.mark.parametrize("write", [write_file, write_folder])
@pytest.mark.parametrize("old", [True, False])
def test_a_kill_at_any_step_leaves_the_old_or_the_new(
    tmp_path: Path, write: Callable[[Path, str], None], old: bool
) -> None:
    step, seen = 0, set()
    died = True
    while died:
        step += 1
        target = tmp_path / str(step) / "target"
        if old:
            write(target, "old")
        died = killed_at(step, write, target, "new")
        if old or target.exists():
            texts = set(content(target))
            assert texts in ({"old" * 1000}, {"new" * 1000}), step
            assert len(content(target)) == (1 if write is write_file else 2)
            seen |= texts
        elif not died:
            raise AssertionError("nothing was written")
    assert step > 5
    assert seen == ({"old" * 1000, "new" * 1000} if old else {"new" * 1000})


def test_content_is_on_disk_before_the_name_and_the_name_before_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    fsync, replace = os.fsync, os.replace

    def watched_fsync(handle: int) -> None:
        events.append("folder" if os.path.isdir(f"/proc/self/fd/{handle}") else "file")
        fsync(handle)

    def watched_replace(source: Path, target: Path) -> None:
        events.append("rename")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(os, "replace", watched_replace)
    write_file(tmp_path / "a.txt", "x")
    assert events == ["file", "rename", "folder"]
    events.clear()
    write_folder(tmp_path / "folder", "x")
    assert events == ["file", "folder", "file", "folder", "rename", "folder"]


def test_a_file_system_that_cannot_flush_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fsync = os.fsync

    def refused(handle: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{handle}"):
            raise OSError(22, "Invalid argument")
        fsync(handle)

    monkeypatch.setattr(os, "fsync", refused)
    write_file(tmp_path / "a.txt", "x")
    write_folder(tmp_path / "folder", "x")
    assert content(tmp_path / "a.txt") == ["x" * 1000]

"""Files and folders are whole at any time, and what others have put into folders stays."""

import ast
import os
import signal
from multiprocessing import get_context

import pytest

from flowbert.io import write_atomically, write_folder_atomically
from helpers import refused


def write(path, texts):
    with write_folder_atomically(path) as temporary:
        fill(temporary, texts)


def fill(folder, texts):
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def texts_of(folder):
    """All files of a folder but the list of them, and what a kill left of it."""
    files = [path for path in folder.rglob("*.txt") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_text() for path in files}


OLDER = {"a.txt": "older", "within/b.txt": "older", "gone.txt": "older"}
NEWER = {"a.txt": "newer", "within/b.txt": "newer", "more.txt": "newer"}


def test_what_was_written_is_replaced(tmp_path):
    path = tmp_path / "new" / "target"
    for texts in (OLDER, NEWER, NEWER):
        write(path, texts)
        assert texts_of(path) == texts
        assert [each.name for each in path.parent.iterdir()] == ["target"]


def nothing_written_here(path):
    fill(path, {"a.txt": "own"})


def changed_since(path):
    write(path, OLDER)
    fill(path, {"a.txt": "own"})


def linked(path):
    path.mkdir()
    (path / "a.txt").symlink_to("elsewhere")


@pytest.mark.parametrize("make", [nothing_written_here, changed_since, linked])
def test_a_file_of_another_is_not_replaced(make, tmp_path):
    path = tmp_path / "target"
    make(path)
    before = texts_of(path)
    refused(r"a\.txt.*not written here", write, path, NEWER)
    assert texts_of(path) == before
    assert os.path.lexists(path / "a.txt")
    assert [each.name for each in tmp_path.iterdir()] == ["target"]


def test_a_whole_folder_takes_no_files_of_others(tmp_path):
    path = tmp_path / "target"
    write(path, OLDER)
    fill(path, {"own.txt": "own"})
    refused(r"target: holds own\.txt.*a new folder", write, path, NEWER)
    assert texts_of(path) == OLDER | {"own.txt": "own"}
    (tmp_path / "file").touch()
    refused("file: is a file", write, tmp_path / "file", NEWER)


def test_a_link_to_a_folder_stays(tmp_path):
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "target")
    for texts in (OLDER, NEWER):
        write(link, texts)
        assert link.is_symlink()
        assert texts_of(tmp_path / "target") == texts


def write_file(path, texts):
    with write_atomically(path) as temporary:
        temporary.write_text(str(texts))


def read(path):
    return texts_of(path) if path.is_dir() else ast.literal_eval(path.read_text())


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("write_one", [write, write_file])
def test_a_kill_leaves_a_whole_one(write_one, tmp_path):
    for count in range(100):
        path = tmp_path / str(count) / "target"
        write_one(path, OLDER)
        arguments = (count, path, write_one)
        process = get_context("fork").Process(target=kill_after, args=arguments)
        process.start()
        process.join()
        assert process.exitcode in (0, -signal.SIGKILL)
        if path.exists():
            assert read(path) in (OLDER, NEWER)
        else:
            (hidden,) = path.parent.iterdir()
            assert texts_of(hidden / "older") == OLDER
        if process.exitcode == 0:
            break
    assert count > 0


@pytest.mark.parametrize("write_one", [write, write_file])
@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_an_error_leaves_the_older_one(call, write_one, tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    write_one(tmp_path / "target", OLDER)
    monkeypatch.setattr(os, call, fail)
    with pytest.raises(OSError, match="No space left"):
        write_one(tmp_path / "target", NEWER)
    assert read(tmp_path / "target") == OLDER
    assert [path.name for path in tmp_path.iterdir()] == ["target"]


def kill_after(count, path, write_one):
    """Write, and be killed at the call of this number that changes names."""
    left = [count]

    def limited(call):
        def counting(*given, **options):
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left[0] -= 1
            return call(*given, **options)

        return counting

    os.replace = limited(os.replace)
    os.rename = limited(os.rename)
    write_one(path, NEWER)

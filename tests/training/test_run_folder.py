"""A run folder belongs to one run: claimed by one process, without anything of another one."""

import time
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path

import pytest

from flowbert.errors import UserError
from flowbert.training.run_folder import (
    claim_folder,
    find_checkpoint,
    new_folder,
)
from helpers import refused

# What each run leaves, among other files.
LEFT = ("checkpoints/last.ckpt", "predictions.npy")


def put(folder, name):
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).touch()


def claim(*args, **options):
    with claim_folder(*args, **options):
        pass


def test_runs_of_one_moment_have_folders_of_their_own():
    assert len({new_folder("flow") for _ in range(100)}) == 100
    assert new_folder("whitening:shrinkage=0.1").parts[:2] == ("runs", "whitening")


def test_one_run_at_a_time(tmp_path):
    path = tmp_path / "a" / "b"
    with pytest.raises(UserError, match="another run writes into"), claim_folder(path):
        claim(path)
    assert list(tmp_path.iterdir()) == []
    for _ in range(2):
        claim(path)
    assert list(path.iterdir()) == []


def test_checkpoints_by_name(tmp_path):
    run, last = tmp_path / "a", tmp_path / "a" / "checkpoints" / "last.ckpt"
    assert find_checkpoint("last", run) == last
    assert find_checkpoint("no/such.ckpt", run) == Path("no/such.ckpt")


@pytest.mark.parametrize("name", LEFT)
def test_what_another_run_left_is_refused(name, tmp_path):
    put(tmp_path, "mine.txt")
    put(tmp_path, "config.yaml")
    claim(tmp_path)  # neither what no run wrote matters, nor a fit without a checkpoint
    put(tmp_path, name)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(
        UserError, match=f"{name.split('/')[0]} of another run"
    ) as caught:
        claim(tmp_path, resumable=True)
    assert ("--resume" in str(caught.value)) == name.startswith("checkpoints")
    assert sorted(tmp_path.rglob("*")) == before
    elsewhere = tmp_path.parent / "last.ckpt"
    refused("of another run", claim, tmp_path, elsewhere, resumable=True)
    claim(tmp_path, tmp_path / "checkpoints" / "last.ckpt", resumable=True)
    put(tmp_path, "results.json")
    refused(
        "holds a finished run",
        claim,
        tmp_path,
        tmp_path / "checkpoints" / "last.ckpt",
        resumable=True,
    )


def test_a_failed_run_leaves_its_folder_for_the_next(tmp_path):
    """Unless it began its training, or the folder was not its own."""
    for name, kept in {"new": False, "new/checkpoints": True, "own": True}.items():
        folder = tmp_path / name.split("/")[0] / str(kept)
        if name == "own":
            put(folder, "mine.txt")
        with suppress(ZeroDivisionError), claim_folder(folder):
            put(folder, "config.yaml")
            if "/" in name:
                put(folder, "checkpoints/last.ckpt")
            raise ZeroDivisionError
        assert (folder / "config.yaml").exists() == kept
        assert folder.exists() == kept


def test_what_cannot_be_a_folder(tmp_path):
    (tmp_path / "file").touch()
    for name, reason in {"file": "File exists", "file/run": "Not a dir"}.items():
        message = rf"run_dir: .* cannot be written \({reason}"
        refused(message, claim, tmp_path / name)


def test_a_killed_process_blocks_nobody(tmp_path):
    context = get_context("fork")
    ready = context.Event()

    def hold():
        with claim_folder(tmp_path):
            ready.set()
            time.sleep(60)

    process = context.Process(target=hold)
    process.start()
    assert ready.wait(30)
    refused("another run writes into", claim, tmp_path)
    process.kill()
    process.join()
    claim(tmp_path)

"""Fixtures shared by all tests."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from flowbert.progress import Step

# Read when huggingface_hub is imported, so it must be set before any test module is.
os.environ["HF_HUB_OFFLINE"] = "1"
# A page takes seconds; the tests that look at pages ask for them.
os.environ["FLOWBERT_REPORT"] = "0"


def _shared_cache(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One embedding cache for all workers of a run: each has a folder of its own in that of the run."""
    folder = tmp_path_factory.getbasetemp()
    return str((folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "embedding-cache")


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Fixtures of modules run before those of tests: the user's own cache is out of their reach, too."""
    os.environ["FLOWBERT_CACHE"] = _shared_cache(tmp_path_factory)


@pytest.fixture(autouse=True)
def _isolated(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """No test reaches a hub, a login or the user's own cache; the tests of one run share an embedding cache."""
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("FLOWBERT_CACHE", _shared_cache(tmp_path_factory))


@pytest.fixture
def real() -> Path:
    """Folder with real data and encoders (FLOWBERT_REAL), or a skip that says what is missing."""
    root = os.environ.get("FLOWBERT_REAL")
    if not root:
        pytest.skip("FLOWBERT_REAL is not set: no real data and encoders on this machine")
    path = Path(root).resolve()
    if not (path / "models").is_dir():
        pytest.skip(f"FLOWBERT_REAL={root} has no folder models/")
    return path


@pytest.fixture
def set_threads() -> "Iterator[Callable[[int], None]]":
    """Sets how many threads torch has during the test."""
    import torch

    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.fixture
def one_thread(set_threads: "Callable[[int], None]") -> None:
    """One thread of torch, where the number of threads decides what is computed."""
    set_threads(1)


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """A file of 60 pairs of one's own."""
    path = tmp_path / "mine.tsv"
    from flowbert.data.sample import sample_pairs

    lines = [f"{a}\t{b}\t{score}" for a, b, score in sample_pairs("test")[:60]]
    path.write_text("\n".join(["sentence1\tsentence2\tscore", *lines]) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> "list[Step]":
    """The steps whose progress is shown, in the order they began; nothing is drawn."""
    from flowbert import progress

    found: list[Step] = []
    monkeypatch.setattr(progress._display, "open", found.append)
    monkeypatch.setattr(progress._display, "close", lambda _: None)
    return found

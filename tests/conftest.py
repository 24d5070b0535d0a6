"""Fixtures shared by all tests."""

import os
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _isolated(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """No test reaches a hub, a login or the user's own cache."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("FLOWBERT_CACHE", str(tmp_path_factory.mktemp("cache")))


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

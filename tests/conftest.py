"""Fixtures that all tests share."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The sample encoder has no prediction layers, which masked language modelling says."""
    for item in items:
        ignored = "ignore:.*has no prediction layers"
        item.add_marker(pytest.mark.filterwarnings(ignored))


@pytest.fixture(autouse=True, scope="session")
def _cache_of_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Embeddings of tests are cached in a folder of their own, that of all workers."""
    before = os.environ.get("FLOWBERT_CACHE")
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    os.environ["FLOWBERT_CACHE"] = str(shared / "cache")
    yield
    os.environ.pop("FLOWBERT_CACHE")
    if before is not None:
        os.environ["FLOWBERT_CACHE"] = before


@pytest.fixture(autouse=True)
def _wandb_run_of_test() -> Iterator[None]:
    """A run that a test leaves open would be that of the next one in the process."""
    yield
    wandb: Any = sys.modules.get("wandb")
    if wandb is not None and wandb.run is not None:
        wandb.finish()


@pytest.fixture(scope="session")
def real() -> Path:
    """Folder with real data and encoders; the test is skipped where there is none."""
    folder = os.environ.get("FLOWBERT_REAL")
    if folder is None or not Path(folder).is_dir():
        pytest.skip(
            "needs real data: FLOWBERT_REAL is not set to a folder with models/ and data/"
        )
    return Path(folder)

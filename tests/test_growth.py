"""Memory does not grow with the corpus: the peak of a process at N and at 4 N vectors."""

import multiprocessing
from pathlib import Path
from typing import Any

import pytest

from benchmarks import growth

pytestmark = pytest.mark.slow

ROWS, DIM = 20_000, 256
ALLOWED = 20  # MB more at 4 N; the vectors alone are 61 MB more


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("growth")
    growth.prepare(made, ROWS, DIM, (1, 4))
    return made


@pytest.mark.parametrize("stage", ["whitening", "flow", "evaluation"])
def test_memory_is_flat(stage: str, folder: Path) -> None:
    small, large = (used(stage, growth.Setting(folder, times, ROWS, DIM)) for times in (1, 4))
    assert large - small < ALLOWED


def test_memory_of_a_store_is_that_of_its_sentences(tmp_path: Path) -> None:
    # Vectors are 98 MB more; 24,000 sentences and their digests are a few.
    small, large = (used("store", growth.Setting(tmp_path, times, 8000, 1024)) for times in (1, 4))
    assert large - small < ALLOWED


def used(stage: str, at: growth.Setting) -> float:
    """What a stage adds to the memory of a process that has imported everything, MB."""
    context: Any = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["benchmarks.growth", "flowbert.cli.training"])
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=_measure, args=(stage, at, sending))
    process.start()
    assert receiving.poll(120)
    found: float = receiving.recv()
    process.join(20)
    return found


def _measure(stage: str, at: growth.Setting, sending: Any) -> None:
    measured = growth.measure(getattr(growth, stage), at, 1)
    sending.send(measured["peak"] - measured["before"])

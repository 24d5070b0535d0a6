"""Memory does not grow with the corpus: the peak of a process at N and at 8 N vectors."""

import multiprocessing
from pathlib import Path
from typing import Any

import pytest

from benchmarks import growth

pytestmark = pytest.mark.alone

TIMES = 1, 8
ROWS, DIM = 20_000, 256
ALLOWED = 1 / 4  # of what the vectors alone are more, 143 MB; peaks vary by 15 MB, a tenth


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("growth")
    growth.prepare(made, ROWS, DIM, TIMES)
    return made


@pytest.fixture(autouse=True)
def large_blocks_are_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    # What a process keeps of the memory it freed is not what a stage needs; read when the fork server starts.
    monkeypatch.setenv("MALLOC_MMAP_THRESHOLD_", str(1 << 20))


@pytest.mark.parametrize("stage", ["whitening", "flow", "evaluation"])
def test_memory_is_flat(stage: str, folder: Path) -> None:
    assert_flat(stage, *(growth.Setting(folder, times, ROWS, DIM) for times in TIMES))


def test_memory_of_a_store_is_that_of_its_sentences(tmp_path: Path) -> None:
    # Vectors are 229 MB more; 56,000 sentences and their digests are 10.
    assert_flat("store", *(growth.Setting(tmp_path, times, 8000, 1024) for times in TIMES))


def assert_flat(stage: str, small: growth.Setting, large: growth.Setting) -> None:
    more = (large.size - small.size) * small.dim * 4e-6  # MB of float32
    assert used(stage, large) - used(stage, small) < ALLOWED * more


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

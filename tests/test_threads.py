"""Numbers of threads: chosen by size, quota and option, and restored; independent computations."""

import math
import threading
from pathlib import Path

import pytest
import torch

from flowbert import threads
from flowbert.cli import main
from flowbert.threads import (
    NUMBERS_PER_THREAD,
    choose_threads,
    in_threads,
    threads_for,
    use_threads,
)


@pytest.fixture(autouse=True)
def _four_threads(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(threads, "available_processors", lambda: 8)
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


SMALL, LARGE = NUMBERS_PER_THREAD - 1, 100 * NUMBERS_PER_THREAD


def test_threads_by_size_of_the_work():
    sizes = [0, SMALL, 2 * NUMBERS_PER_THREAD, LARGE, math.inf]
    assert [choose_threads(size) for size in sizes] == [1, 1, 2, 4, 4]


def test_threads_by_quota(monkeypatch):
    monkeypatch.setattr(threads, "available_processors", lambda: 2)
    assert [choose_threads(size) for size in (SMALL, LARGE)] == [1, 2]
    with in_threads(lambda _: torch.get_num_threads(), range(4)) as results:
        assert list(results) == [1] * 4
    with in_threads(lambda _: torch.get_num_threads(), range(4), 1) as results:
        assert list(results) == [2] * 4
    assert torch.get_num_threads() == 4


def test_a_given_number_is_that_of_every_size(monkeypatch):
    monkeypatch.setattr(threads, "available_processors", lambda: 2)
    monkeypatch.setenv("OMP_NUM_THREADS", "4")  # torch read it when it was imported
    assert [choose_threads(size) for size in (SMALL, LARGE)] == [4, 4]
    with use_threads(3):  # over OMP_NUM_THREADS
        assert [choose_threads(size) for size in (SMALL, LARGE)] == [3, 3]
    monkeypatch.delenv("OMP_NUM_THREADS")
    with use_threads(5), threads_for(SMALL):
        assert torch.get_num_threads() == 5
    assert torch.get_num_threads() == 4


def test_threads_of_the_option_are_those_of_a_command(monkeypatch, tmp_path):
    seen = []

    def compute(**_):
        seen.append(choose_threads(0))
        raise KeyboardInterrupt

    monkeypatch.setattr("flowbert.cli.import_object", lambda _: compute)
    monkeypatch.setattr("flowbert.cli.available_processors", lambda: 3)
    monkeypatch.chdir(tmp_path)
    Path("threads.yaml").write_text("threads: 3\n")
    for given in (["--threads", "3"], ["--config", "threads.yaml"]):
        with pytest.raises(SystemExit):
            main(["compare", "--methods", "raw", *given])
    assert seen == [3, 3]
    assert torch.get_num_threads() == 4


def workers():
    return sum("ThreadPool" in thread.name for thread in threading.enumerate())


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_ends_the_others(error):
    begun = []
    wait = threading.Event()

    def compute(item):
        begun.append(item)
        if item == 3:
            raise error("item 3")
        return wait.wait(0.001)

    with pytest.raises(error), in_threads(compute, range(10_000)) as results:
        list(results)
    assert len(begun) < 10_000
    assert torch.get_num_threads() == 4
    assert workers() == 0

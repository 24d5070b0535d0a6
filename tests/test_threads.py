"""Independent computations on several threads."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from flowbert.threads import in_threads


@pytest.fixture(autouse=True)
def _four_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


def workers() -> int:
    return sum("ThreadPool" in thread.name for thread in threading.enumerate())


@pytest.mark.parametrize(
    ("items", "most", "threads"),
    [(8, 8, 1), (2, 8, 2), (8, 2, 2), (1, 8, 4), (8, 1, 4)],
)
def test_threads_are_divided_among_workers(items: int, most: int, threads: int) -> None:
    def compute(item: int) -> tuple[int, int, bool]:
        return item, torch.get_num_threads(), torch.is_grad_enabled()

    with in_threads(compute, range(items), most) as results:
        assert list(results) == [(item, threads, False) for item in range(items)]
    assert torch.get_num_threads() == 4


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_ends_the_others(error: Any) -> None:
    begun: list[int] = []
    wait = threading.Event()

    def compute(item: int) -> int:
        begun.append(item)
        if item == 3:
            raise error("item 3")
        return wait.wait(0.001)

    with pytest.raises(error), in_threads(compute, range(10_000)) as results:
        list(results)
    assert len(begun) < 10_000
    assert torch.get_num_threads() == 4
    assert workers() == 0

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch

from flowbert.threads import in_threads


@pytest.fixture(params=[2, 3, 4])
def threads(request: pytest.FixtureRequest, set_threads: Callable[[int], None]) -> int:
    set_threads(request.param)
    return int(request.param)


def workers() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("ThreadPoolExecutor")]


def test_parts_are_computed_at_the_same_time_and_come_in_order(threads: int) -> None:
    together = threading.Barrier(threads, timeout=20)  # breaks unless as many as that are under way at once

    def compute(part: int) -> tuple[int, int, bool]:
        together.wait()
        return part, torch.get_num_threads(), torch.is_grad_enabled()

    with torch.enable_grad(), in_threads(compute, range(threads)) as results:
        assert list(results) == [(part, 1, False) for part in range(threads)]
    assert (torch.get_num_threads(), workers()) == (threads, [])


def test_a_thread_that_begins_meanwhile_is_given_all(threads: int) -> None:
    together = threading.Barrier(threads, timeout=20)

    def compute(_: int) -> tuple[int, int]:
        together.wait()  # all workers have begun
        return threads_of_a_new_one(), torch.get_num_threads()

    with in_threads(compute, range(threads)) as results:
        assert list(results) == [(threads, 1)] * threads


def threads_of_a_new_one() -> int:
    found: list[int] = []
    new = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
    new.start()
    new.join()
    return found[0]


def test_an_error_ends_the_others_and_is_raised(threads: int) -> None:
    begun = []

    def compute(part: int) -> int:
        begun.append(part)
        time.sleep(0.001)
        if part == 3:
            raise ValueError("part 3")
        return part

    with pytest.raises(ValueError, match="part 3"), in_threads(compute, range(10_000)) as results:
        list(results)
    assert len(begun) < 10_000
    assert (torch.get_num_threads(), workers()) == (threads, [])


def test_an_interruption_leaves_no_worker_and_all_threads(threads: int) -> None:
    begun: list[int] = []

    def compute(part: int) -> None:
        begun.append(part)
        time.sleep(0.001)

    def interrupted() -> None:
        with in_threads(compute, range(10_000)) as results:
            next(results)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert len(begun) < 10_000
    assert (torch.get_num_threads(), workers()) == (threads, [])


def test_a_second_interruption_leaves_all_threads(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    shutdown = ThreadPoolExecutor.shutdown

    def interrupted(*args: Any, **options: Any) -> None:
        shutdown(*args, **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(ThreadPoolExecutor, "shutdown", interrupted)
    with pytest.raises(KeyboardInterrupt), in_threads(abs, range(8)) as results:
        list(results)
    assert threads_of_a_new_one() == threads


def test_threads_are_dealt_out_and_bounded(set_threads: Callable[[int], None]) -> None:
    def compute(_: int) -> tuple[bool, int]:
        assert not torch.is_grad_enabled()
        return threading.current_thread() is threading.main_thread(), torch.get_num_threads()

    for most, parts, expected in ((None, 4, (False, 1)), (2, 4, (False, 2)), (1, 4, (True, 4)), (None, 1, (True, 4))):
        set_threads(4)
        with in_threads(compute, range(parts), most) as results:
            assert set(results) == {expected}

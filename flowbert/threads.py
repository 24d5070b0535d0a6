"""Number of torch threads, and independent computations in several threads."""

import math
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain, islice
from typing import Any, TypeVar

import torch

from flowbert.quota import available_processors

Item = TypeVar("Item")
Result = TypeVar("Result")

MAX_WORKERS = 8
"""Largest number of workers; with more, memory or Python itself is the bottleneck."""

NUMBERS_PER_THREAD = 2**16
"""Number of values of a tensor for each additional thread.

The threads of OpenMP wait for each other at every operation. Two instead of one on two processors:
with 49,000 numbers (a flow of D = 768, batches of 64) 1.0 to 1.4 times as fast, from 196,000 on
(batches of 256) 1.3 to 1.7 times; an eigendecomposition of 256 x 256 1.2 times, of 512 x 512 1.5
times. Next to other busy processes, two threads on small tensors take 5 to 15 times as long as one.
"""


class _Settings(threading.local):
    """Settings of each Python thread, like torch's number of threads."""

    outer: int | None = None  # torch's number outside of all contexts
    given = False  # by use_threads


_settings = _Settings()


def choose_threads(numbers: float = math.inf) -> int:
    """Number of threads on which torch should compute operations on tensors of a size.

    A thread for each :data:`NUMBERS_PER_THREAD` numbers, at
    least 1, at most :func:`~flowbert.quota.available_processors` and the threads that torch
    had. ``OMP_NUM_THREADS`` and :func:`use_threads` (``--threads``) take precedence, for all
    sizes.

    Args:
        numbers: Number of values of a typical tensor; infinity for large tensors and independent
            work.
    """
    outer = _settings.outer or torch.get_num_threads()
    if _settings.given or os.environ.get("OMP_NUM_THREADS"):
        return outer
    limit = min(outer, available_processors())
    return int(max(1, min(limit, numbers // NUMBERS_PER_THREAD)))


@contextmanager
def threads_for(numbers: float = math.inf) -> Iterator[int]:
    """Compute with the threads of :func:`choose_threads`, then restore torch's setting.

    Args:
        numbers: Number of values of a typical tensor.

    Yields:
        The number of threads.

    Example:
        >>> with threads_for(64 * 384) as threads:
        ...     same = threads == torch.get_num_threads()
        >>> same
        True
    """
    outer = _settings.outer or torch.get_num_threads()
    with _set_threads(choose_threads(numbers), outer, _settings.given):
        yield torch.get_num_threads()


@contextmanager
def use_threads(count: int) -> Iterator[None]:
    """Compute on this number of threads for all sizes of tensors, like ``--threads``.

    Args:
        count: Number of threads.

    Example:
        >>> with use_threads(1):
        ...     choose_threads()
        1
    """
    with _set_threads(count, count, True):
        yield


@contextmanager
def _set_threads(count: int, outer: int, given: bool) -> Iterator[None]:
    before: Any = torch.get_num_threads(), _settings.outer, _settings.given
    _settings.outer, _settings.given = outer, given
    torch.set_num_threads(count)
    try:
        yield
    finally:
        threads, _settings.outer, _settings.given = before
        torch.set_num_threads(threads)


@contextmanager
def in_threads(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    max_workers: int = MAX_WORKERS,
) -> Iterator[Iterator[Result]]:
    """Apply a function to all items with as many workers as torch may have threads.

    Torch's threads are divided among the workers: one worker per thread is faster than one item at
    a time on all threads, because no thread waits for another.

    Args:
        function: Computes the result of an item, without gradients.
        items: The items.
        max_workers: Upper bound of the number of workers.

    Yields:
        An iterator over the results, in the order of the items.

    Example:
        >>> with in_threads(sum, [[1, 2], [3], [4, 5]]) as sums:
        ...     list(sums)
        [3, 3, 9]
    """
    items = iter(items)
    first = list(islice(items, max_workers))
    items = chain(first, items)
    function = torch.no_grad()(function)
    with threads_for() as threads:
        workers = min(threads, len(first))
        if workers < 2:
            yield map(function, items)
            return
        # The number of threads is a setting of each thread that uses torch.
        pool = ThreadPoolExecutor(
            workers, initializer=lambda: torch.set_num_threads(threads // workers)
        )
        try:
            yield pool.map(function, items)
        finally:
            pool.shutdown(cancel_futures=True)

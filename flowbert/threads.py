"""Independent computations on several threads."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")

MAX_WORKERS = 8
"""Beyond this, memory for each worker or Python itself is the bottleneck."""


@contextmanager
def in_threads(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    max_workers: int = MAX_WORKERS,
) -> Iterator[Iterator[Result]]:
    """Apply a function to all items with as many workers as torch has threads.

    Torch's intra-operation threads are divided among the workers: one worker per thread computes
    more than one item at a time on all threads.

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
    function = torch.no_grad()(function)
    threads = torch.get_num_threads()
    workers = min(threads, len(items), max_workers)
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
        torch.set_num_threads(threads)

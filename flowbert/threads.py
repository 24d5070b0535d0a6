"""Independent parts of a computation side by side: a thread each computes more than all threads that share one part."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from threading import Thread
from typing import TypeVar

import torch

Part = TypeVar("Part")
Result = TypeVar("Result")

MANY = 8
"""Workers beyond which memory for each, or Python itself, would be what they wait for."""


@contextmanager
def in_threads(
    compute: Callable[[Part], Result], parts: Sequence[Part], most: int | None = None
) -> Iterator[Iterator[Result]]:
    """Results of all parts, in order, computed meanwhile by as many workers as torch has threads.

    Torch's threads are dealt out to the workers, so that neither waits for the other.

    Args:
        compute: From a part to its result, without gradients.
        parts: The parts.
        most: Upper bound of the workers; None for none.

    Yields:
        The results. What was not begun at the end of the block, or when one fails, is left out.

    Example:
        >>> with in_threads(sum, [[1, 2], [3], [4, 5]]) as sums:
        ...     list(sums)
        [3, 3, 9]
    """
    compute, threads = torch.no_grad()(compute), torch.get_num_threads()
    workers = min(threads, len(parts), threads if most is None else most)
    if workers < 2:
        yield map(compute, parts)
        return
    begun = count(1)

    def take_share() -> None:
        torch.get_num_threads()  # at its first use torch gives a thread what was set last, by whichever thread
        torch.set_num_threads(threads // workers)
        if next(begun) == workers:  # set once more by a thread that ends: threads to come are given all
            last = Thread(target=torch.set_num_threads, args=(threads,))
            last.start()
            last.join()

    pool = ThreadPoolExecutor(workers, initializer=take_share)
    try:
        yield pool.map(compute, parts)
    finally:
        try:
            pool.shutdown(cancel_futures=True)
        finally:  # a second Ctrl-C may end the wait
            torch.set_num_threads(threads)  # some of what a worker sets is the whole process's

"""Resamples with replacement as multiplicities: by seed, block by block, the same whoever computes them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flowbert.errors import UserError
from flowbert.seeding import Stream

Counts = NDArray[np.int32]
_BLOCK_VALUES = 1 << 16  # resamples x values at a time: stays in the processor's cache
_LEAST = {"resamples": 1, "seed": 0, "threads": 1}


@dataclass(frozen=True)
class Block:
    """Consecutive resamples and the stream of random numbers that belongs to them."""

    resamples: int
    stream: Stream

    def multiplicities(self, sizes: Sequence[int]) -> Counts:
        """How often each unit is drawn, from strata of these sizes.

        Returns:
            Shape ``(R, N)``, N being the sum of the sizes; each stratum's add up to its size.
        """
        generator = self.stream.rng()
        return np.concatenate([_drawn(generator, self.resamples, int(size)) for size in sizes], axis=1)


def blocks(task: str, values: int, resamples: int, seed: int) -> Iterator[Block]:
    """All resamples of a task.

    Args:
        task: Its name: the resamples of two tasks are independent.
        values: How many numbers a resample needs, which bounds the size of a block.
        resamples: Number R of resamples.
        seed: Seed.
    """
    size = max(1, _BLOCK_VALUES // values)
    # The streams are numbered, so a block's draws do not depend on who computes it or on what comes after.
    for number, start in enumerate(range(0, resamples, size)):
        yield Block(min(size, resamples - start), Stream(seed, "bootstrap", batch=number, of=task))


def check_resampling(task: str, methods: int, **numbers: int) -> None:
    """Refuse what cannot be resampled.

    Args:
        task: Name of the task.
        methods: Number of methods.
        numbers: ``resamples``, ``seed``, ``threads``.

    Raises:
        UserError: If a number is out of range or there is no method.
    """
    for name, value in numbers.items():
        if value < _LEAST[name]:
            raise UserError(f"{name} is {value}; allowed: a whole number of at least {_LEAST[name]}")
    if not methods:
        raise UserError(f"{task}: no method to resample; allowed: at least one")


def _drawn(generator: np.random.Generator, resamples: int, size: int) -> Counts:
    rows: NDArray[Any] = generator.integers(0, size, (resamples, size))
    rows += np.arange(resamples)[:, None] * size
    counts = np.bincount(rows.ravel(), minlength=resamples * size)
    return counts.astype(np.int32).reshape(resamples, size)

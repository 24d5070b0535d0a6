"""Resamples with replacement as multiplicities: by seed, block by block, the same whoever computes them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flowbert.seeding import Stream

Counts = NDArray[np.int32]
"""How often each unit is drawn, shape ``(R, units)``."""
Floats = NDArray[np.float64]
_BLOCK_VALUES = 1 << 16  # resamples x values at a time: stays in the processor's cache


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


def unit_means(values: Floats, counts: Counts) -> Floats:
    """Mean over the units drawn, e.g. of the reciprocal ranks of questions.

    Args:
        values: Value of each of U units in each of K rows, shape ``(K, U)``; NaN in all rows for a unit without value,
            which is left out.
        counts: Multiplicities of shape ``(R, U)``.

    Returns:
        Shape ``(K, R)``; NaN for a resample in which no unit has a value.

    Example:
        >>> unit_means(np.array([[1.0, 0.5, np.nan]]), np.array([[1, 1, 1], [2, 0, 1], [0, 0, 3]], dtype=np.int32))
        array([[0.75, 1.  ,  nan]])
    """
    there = ~np.isnan(values).all(axis=0)
    weights = counts[:, there].astype(np.float64)
    total = weights.sum(axis=1)
    total[total == 0] = np.nan
    # Row by row: one product of matrices may round equal rows differently, and then a method differs from its twin.
    means: Floats = np.stack([weights @ row for row in np.ascontiguousarray(values[:, there])]) / total
    return means


def _drawn(generator: np.random.Generator, resamples: int, size: int) -> Counts:
    rows: NDArray[Any] = generator.integers(0, size, (resamples, size))
    rows += np.arange(resamples)[:, None] * size
    counts = np.bincount(rows.ravel(), minlength=resamples * size)
    return counts.astype(np.int32).reshape(resamples, size)

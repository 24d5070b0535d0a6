"""What is fitted on: sentences, or pairs or triples of them, and which of these are held out."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from flowbert.data.corpus import sentences_digest
from flowbert.seeding import Stream


@dataclass(frozen=True, eq=False)
class Examples:
    """N sentences, pairs or triples.

    Args:
        name: What they are, for tables: ``target``.
        columns: One, two or three tuples of N sentences: all there is; first and second sentences; or anchors,
            positives and hard negatives.
        targets: Class (int64) or wanted cosine (float32) of each pair, ``(N,)``; None where there is none.
        blank: Blank lines that were dropped.
    """

    name: str
    columns: tuple[tuple[str, ...], ...]
    targets: npt.NDArray[Any] | None = None
    blank: int = 0

    def __len__(self) -> int:
        return len(self.columns[0])

    def sample(self, size: int, seed: int) -> "Examples":
        """At most ``size`` examples, drawn without replacement by ``seed``, in their old order."""
        if size >= len(self):
            return self
        chosen = sorted(Stream(seed, "subset").python().sample(range(len(self)), size))
        targets = None if self.targets is None else self.targets[chosen]
        return replace(self, columns=tuple(tuple(c[i] for i in chosen) for c in self.columns), targets=targets)

    def distinct_columns(self) -> list[tuple[str, ...]]:
        """The columns; one that is there twice counts once."""
        return list(dict.fromkeys(self.columns))

    @property
    def duplicates(self) -> int:
        """Occurrences beyond the first of each sentence."""
        sentences = [sentence for column in self.distinct_columns() for sentence in column]
        return len(sentences) - len(set(sentences))

    @cached_property
    def digest(self) -> str:
        """Digest of all sentences, column after column, and targets."""
        targets = [] if self.targets is None else [str(value) for value in self.targets.tolist()]
        return sentences_digest([*(sentence for column in self.columns for sentence in column), *targets])


def split_held_out(
    sentences: Sequence[str], fraction: float, seed: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Split occurrences into fitting and held-out ones so that no held-out sentence is also fitted on.

    Args:
        sentences: The corpus, N occurrences.
        fraction: Share of the distinct sentences to hold out, in [0, 1).
        seed: Seed of the choice.

    Returns:
        Indices of the fitting occurrences and of the held-out ones, both rising; together 0..N-1.

    Example:
        >>> fitting, held_out = split_held_out(["a", "b", "a", "c"], 0.34, seed=0)
        >>> fitting.tolist(), held_out.tolist()
        ([1, 3], [0, 2])
    """
    distinct = list(dict.fromkeys(sentences))
    order = Stream(seed, "split").rng().permutation(len(distinct))
    held = {distinct[i] for i in order[: round(fraction * len(distinct))]}
    mask = np.fromiter((s in held for s in sentences), dtype=bool, count=len(sentences))
    return np.flatnonzero(~mask), np.flatnonzero(mask)

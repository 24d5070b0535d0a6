"""An encoder without a network, which records its calls; light, so that a process of its own starts fast."""

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from flowbert.store.embedding_store import EmbeddingStore

DIM = 3


class CountingEncoder:
    """Embeds a text as numbers of its own, plus one that shows which sentences were encoded in the same call."""

    dim = DIM

    def __init__(self, name: str = "counting", fail_at_call: int | None = None):
        self.name = name
        self.fail_at_call = fail_at_call
        self.calls: list[list[str]] = []

    def key(self) -> dict[str, Any]:
        return {"name": self.name}

    def encode(
        self, sentences: Sequence[str], *, on_batch: Callable[[int], None] | None = None
    ) -> npt.NDArray[np.float32]:
        if len(self.calls) == self.fail_at_call:
            raise KeyboardInterrupt
        self.calls.append(list(sentences))
        if on_batch is not None:
            on_batch(len(sentences))
        call = sum(len(text) for text in sentences)
        values = [[len(text), sum(text.encode()) % 1009, call] for text in sentences]
        return np.array(values, dtype=np.float32).reshape(-1, DIM)


def make_sentences(count: int, seed: int = 0) -> list[str]:
    rng = random.Random(seed)
    return [f"{i} " + "x" * rng.randint(0, 30) for i in range(count)]


def add_three_times(root: Path, start: int) -> None:
    """Body of a process that writes to the same store as others."""
    store = EmbeddingStore(root, CountingEncoder(), shard_rows=7)
    for _ in range(3):
        store.add(make_sentences(200)[start:])
        store.refresh()

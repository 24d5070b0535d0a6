"""Several stores filled by one pass of an encoder, and vectors that are averages over stores."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from tqdm import tqdm

from flowbert.store.embedding_store import Encoder, Store
from flowbert.store.shards import Floats

_AT_ONCE = 2048


class Wide(Protocol):
    """Encoder whose vectors are P parts side by side."""

    def encode(self, sentences: Sequence[str], *, on_batch: Callable[[int], Any] | None = None) -> Floats:
        """Embed N sentences: shape ``(N, P * D)``, float32."""


class _Part:
    """One part as an encoder of its own: what a store sees."""

    def __init__(self, owner: "PartStores", number: int, key: dict[str, Any]) -> None:
        self.dim = owner.dim
        self._owner = owner
        self._columns = slice(number * owner.dim, (number + 1) * owner.dim)
        self._key = key

    def key(self) -> dict[str, Any]:
        return self._key

    def encode(self, sentences: Sequence[str], *, on_batch: Callable[[int], Any] | None = None) -> Floats:
        wide = self._owner.wide(sentences)
        if on_batch is not None:
            on_batch(len(sentences))
        return wide[:, self._columns]


class PartStores:
    """A store for each part of a wide encoder; a sentence that any of them lacks is encoded once for all.

    Args:
        encoder: Its vectors are the parts side by side, in the order of ``keys``.
        dim: Size D of one part.
        keys: Name -> identity of the part, as a store takes it.
        make_store: Makes the store of a part, e.g. ``lambda part: EmbeddingStore(None, part)``.

    Example:
        >>> from flowbert.store.embedding_store import MemoryStore
        >>> class Lengths:
        ...     def encode(self, sentences, *, on_batch=None):
        ...         return np.array([[len(s), s.count("o")] for s in sentences], dtype=np.float32)
        >>> stores = PartStores(Lengths(), 1, {"length": {}, "o": {}}, MemoryStore)
        >>> stores.embeddings(["to be", "or"], ["length", "o"]).tolist()
        [[3.0], [1.5]]
    """

    def __init__(
        self, encoder: Wide, dim: int, keys: Mapping[Hashable, dict[str, Any]], make_store: Callable[[Encoder], Store]
    ) -> None:
        self.dim = dim
        self._encoder = encoder
        self._stores = {name: make_store(_Part(self, n, key)) for n, (name, key) in enumerate(keys.items())}
        self._known: dict[str, int] = {}
        self._vectors: Floats = np.empty((0, 0), dtype=np.float32)

    def add(self, sentences: Iterable[str], *, progress: bool = False) -> None:
        """Encode what any store lacks, block by block; an interruption loses one block."""
        distinct = list(dict.fromkeys(sentences))
        lacking = {text for store in self._stores.values() for text in store.missing(distinct)}
        texts = sorted(lacking, key=lambda text: (len(text), text))
        with tqdm(total=len(texts), desc="Encoding", unit=" sentences", disable=not (progress and texts)) as bar:
            for start in range(0, len(texts), _AT_ONCE):
                block = texts[start : start + _AT_ONCE]
                self._vectors = self._encoder.encode(block, on_batch=bar.update)
                self._known = {text: row for row, text in enumerate(block)}
                for store in self._stores.values():
                    store.add(block)
        self._known = {}

    def wide(self, sentences: Sequence[str]) -> Floats:
        """Vectors of sentences of the block at hand, all parts: shape ``(N, P * D)``."""
        return self._vectors[[self._known[text] for text in sentences]]

    def embeddings(self, sentences: Sequence[str], parts: Sequence[Hashable]) -> Floats:
        """Average of some parts, each of equal weight: shape ``(N, D)``; what is missing is encoded first."""
        try:
            return self._average(sentences, parts)
        except KeyError:
            self.add(sentences)
            return self._average(sentences, parts)

    def _average(self, sentences: Sequence[str], parts: Sequence[Hashable]) -> Floats:
        found = (store.take(store.rows(sentences)) for store in (self._stores[part] for part in parts))
        total = next(found)
        for vectors in found:
            total = total + vectors
        return total / np.float32(len(parts)) if len(parts) > 1 else total

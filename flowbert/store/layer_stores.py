"""Stores of several layer settings, filled by one pass of an encoder, and averages over them."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from flowbert.store.base import Encoder, Floats, Store, progress_bar

_AT_ONCE = 2048


class LayersEncoder(Protocol):
    """Encoder whose vectors are those of S layer settings side by side."""

    def encode(self, sentences: Sequence[str], *, on_batch: Callable[[int], Any] | None = None) -> Floats:
        """Embed N sentences: shape ``(N, S * D)``, float32."""


class _OneSetting:
    """One layer setting as an encoder of its own: what a store sees."""

    def __init__(self, owner: "LayerStores", number: int, key: dict[str, Any]) -> None:
        self.dim = owner.dim
        self._owner = owner
        self._columns = slice(number * owner.dim, (number + 1) * owner.dim)
        self._key = key

    def key(self) -> dict[str, Any]:
        return self._key

    def encode(self, sentences: Sequence[str], *, on_batch: Callable[[int], Any] | None = None) -> Floats:
        vectors = self._owner.encoded(sentences)
        if on_batch is not None:
            on_batch(len(sentences))
        return vectors[:, self._columns]


class LayerStores:
    """A store for each layer setting of an encoder; a sentence that any of them lacks is encoded once for all.

    Args:
        encoder: Its vectors are those of the settings side by side, in the order of ``keys``.
        dim: Size D of the vectors of one setting.
        keys: Setting -> identity of its vectors, as a store takes it.
        make_store: Makes the store of a setting from what stands for its encoder, e.g. ``MemoryStore``.

    Example:
        >>> from flowbert.store.embedding_store import MemoryStore
        >>> import numpy as np
        >>> class Lengths:
        ...     def encode(self, sentences, *, on_batch=None):
        ...         return np.array([[len(s), s.count("o")] for s in sentences], dtype=np.float32)
        >>> stores = LayerStores(Lengths(), 1, {"length": {}, "o": {}}, MemoryStore)
        >>> stores.embeddings(["to be", "or"], ["length", "o"]).tolist()
        [[3.0], [1.5]]
    """

    def __init__(
        self,
        encoder: LayersEncoder,
        dim: int,
        keys: Mapping[Hashable, dict[str, Any]],
        make_store: Callable[[Encoder], Store],
    ) -> None:
        self.dim = dim
        self._encoder = encoder
        self._stores = {name: make_store(_OneSetting(self, n, key)) for n, (name, key) in enumerate(keys.items())}
        self._at_hand: dict[str, Floats] = {}

    def add(self, sentences: Iterable[str], *, progress: bool = False) -> None:
        """Encode what any store lacks, block by block; an interruption loses one block."""
        distinct = list(dict.fromkeys(sentences))
        lacking = {text for store in self._stores.values() for text in store.missing(distinct)}
        texts = sorted(lacking, key=lambda text: (len(text), text))
        with progress_bar(len(texts), progress) as bar:
            for start in range(0, len(texts), _AT_ONCE):
                block = texts[start : start + _AT_ONCE]
                self._at_hand = dict(zip(block, self._encoder.encode(block, on_batch=bar.update), strict=True))
                for store in self._stores.values():
                    store.add(block)
        self._at_hand = {}

    def encoded(self, sentences: Sequence[str]) -> Floats:
        """Vectors of sentences of the block at hand, all settings: shape ``(N, S * D)``."""
        return np.stack([self._at_hand[text] for text in sentences])

    def embeddings(self, sentences: Sequence[str], layers: Sequence[Hashable]) -> Floats:
        """Average of some settings, each of equal weight: shape ``(N, D)``; what is missing is encoded first."""
        try:
            return self._average(sentences, layers)
        except KeyError:
            self.add(sentences)
            return self._average(sentences, layers)

    def _average(self, sentences: Sequence[str], layers: Sequence[Hashable]) -> Floats:
        found = (store.take(store.rows(sentences)) for store in map(self._stores.__getitem__, layers))
        total = next(found)
        for vectors in found:
            total = total + vectors
        return total / np.float32(len(layers)) if len(layers) > 1 else total

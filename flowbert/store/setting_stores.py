"""Stores of several settings of one encoder, filled by one pass of it, and averages over them."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Protocol

import numpy as np

from flowbert.processes import ALONE, Processes
from flowbert.progress import progress
from flowbert.store.base import Encoder, Floats, Store

_AT_ONCE = 2048


class SettingsEncoder(Protocol):
    """Encoder whose vectors are those of the selected settings side by side, of size D each."""

    layer_dim: int

    def select(self, settings: Sequence[Any]) -> None:
        """Choose S settings."""

    def key_of(self, setting: Any) -> dict[str, Any]:
        """Identity of the vectors of a setting."""

    def encode(self, sentences: Sequence[str], *, on_batch: Callable[[int], Any] | None = None) -> Floats:
        """Embed N sentences: shape ``(N, S * D)``, float32."""


class _OneSetting:
    """What a store must know of a setting; its sentences are encoded with those of all."""

    def __init__(self, encoder: SettingsEncoder, setting: Hashable) -> None:
        self.dim = encoder.layer_dim
        self._key = encoder.key_of(setting)

    def key(self) -> dict[str, Any]:
        return self._key

    def encode(self, sentences: Sequence[str], *, on_batch: Callable[[int], Any] | None = None) -> Floats:
        raise TypeError("a setting encodes nothing by itself; allowed: SettingStores.fill")


class SettingStores:
    """A store for each setting of an encoder; a sentence that several of them lack is encoded once for all.

    Args:
        encoder: The encoder.
        make_store: Makes the store of a setting from what stands for its encoder, e.g. ``MemoryStore``.

    Example:
        >>> from flowbert.store.embedding_store import MemoryStore
        >>> class Letters:
        ...     layer_dim = 1
        ...     def select(self, settings):
        ...         self.letters = settings
        ...     def key_of(self, setting):
        ...         return {"letter": setting}
        ...     def encode(self, sentences, *, on_batch=None):
        ...         return np.array([[s.count(letter) for letter in self.letters] for s in sentences], dtype=np.float32)
        >>> stores = SettingStores(Letters(), MemoryStore)
        >>> stores.expect(["to be", "or"], ["o", "b"])
        >>> stores.fill()
        >>> stores.embeddings(["to be", "or"], ["o", "b"]).tolist()
        [[1.0], [0.5]]
    """

    def __init__(self, encoder: SettingsEncoder, make_store: Callable[[Encoder], Store]) -> None:
        self._encoder = encoder
        self._make_store = make_store
        self._stores: dict[Hashable, Store] = {}
        self._expected: dict[Hashable, dict[str, None]] = {}

    def expect(self, sentences: Iterable[str], settings: Sequence[Hashable]) -> None:
        """Note that some settings are going to be asked for these sentences: :meth:`fill` encodes them."""
        texts = dict.fromkeys(sentences)
        for setting in settings:
            self._expected.setdefault(setting, {}).update(texts)

    def fill(self, processes: Processes = ALONE) -> None:
        """Encode what is expected and not there yet, block by block; an interruption loses one block.

        Args:
            processes: Those that share the blocks, and expect the same; every one must call.

        Raises:
            UserError: If the vectors cannot be written, or what another process has encoded is not to be found.
        """
        expected, self._expected = self._expected, {}
        missing = [self._store(each).missing(list(texts)) for each, texts in expected.items()]
        missing = processes.broadcast(missing)  # what one of them writes another one may see already
        lacking = {each: set(texts) for each, texts in zip(expected, missing, strict=True)}
        settings = [each for each, texts in lacking.items() if texts]
        texts = sorted(set().union(*lacking.values()), key=lambda text: (len(text), text))
        if not texts:
            return
        self._encoder.select(settings)
        blocks = [texts[start : start + _AT_ONCE] for start in range(0, len(texts), _AT_ONCE)]
        mine = blocks[processes.global_rank :: processes.world_size]
        with progress(sum(map(len, mine)), "Encoding", "sentences") as step:
            for block in mine:
                columns = np.split(self._encoder.encode(block, on_batch=step.update), len(settings), axis=1)
                for setting, vectors in zip(settings, columns, strict=True):
                    store = self._store(setting)
                    wanted = set(store.missing([text for text in block if text in lacking[setting]]))
                    own = [row for row, text in enumerate(block) if text in wanted]
                    if own:
                        store.keep([block[row] for row in own], vectors[own])
        for setting in settings:
            self._store(setting).gather(list(lacking[setting]), processes)

    def embeddings(self, sentences: Sequence[str], settings: Sequence[Hashable]) -> Floats:
        """Average of some settings, each of equal weight: shape ``(N, D)``; what is missing is encoded first."""
        try:
            return self._average(sentences, settings)
        except KeyError:
            self.expect(sentences, settings)
            self.fill()
            return self._average(sentences, settings)

    def _store(self, setting: Hashable) -> Store:
        if setting not in self._stores:
            self._stores[setting] = self._make_store(_OneSetting(self._encoder, setting))
        return self._stores[setting]

    def _average(self, sentences: Sequence[str], settings: Sequence[Hashable]) -> Floats:
        stores = [self._store(setting) for setting in settings]
        found = (store.take(store.rows(sentences)) for store in stores)
        total = next(found)
        for vectors in found:
            total = total + vectors
        return total / np.float32(len(settings)) if len(settings) > 1 else total

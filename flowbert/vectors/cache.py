"""A cache of the vectors of sentences, in files that runs and processes share."""

import hashlib
import os
import sqlite3
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from flowbert.arrays import Floats
from flowbert.data.text_files import as_sentences, user_path
from flowbert.encoders.base import (
    BLOCK_SENTENCES,
    Embedder,
    cuts_summed,
    digests_reused,
)
from flowbert.encoders.encoder import encode_counted
from flowbert.errors import UserError
from flowbert.io import digest, release_pages
from flowbert.precision import precision_settings
from flowbert.progress import bar
from flowbert.vectors.base import Vectors
from flowbert.vectors.store import KEY_BYTES, Store

_VERSION = 3  # raised when a change of the code moves vectors

LONGEST_WAIT_SECONDS = 30.0
"""Longest time in seconds that a process waits for another one with the same encoder."""

MEMORY_BYTES = 2**30
"""Size in bytes above which copies of vectors are mapped from a temporary file."""


def computation() -> dict[str, Any]:
    """Version of the code and settings of torch, which change vectors like another encoder."""
    return {"version": _VERSION, "precision": precision_settings()}


class EmbeddingCache:
    """Vectors of encoders, in files or in memory; each distinct sentence is encoded once.

    If several processes use the same encoder, one encodes and the others wait, for at most 30 s. An
    interruption loses at most 4,096 sentences. A damaged file is deleted with a warning, and its
    sentences are encoded again.

    Args:
        folder: Folder of the files; None for the environment variable FLOWBERT_CACHE, or else
            ``~/.cache/flowbert``; False for memory.

    Example:
        >>> from flowbert.encoders import SentenceEncoder
        >>> cache = EmbeddingCache(folder=False)
        >>> cache.rows(SentenceEncoder("builtin-sample"), ["a dog", "a cat", "a dog"])[:].shape
        (3, 128)
    """

    def __init__(self, folder: str | Path | bool | None = None) -> None:
        if folder is None:
            folder = os.environ.get("FLOWBERT_CACHE") or "~/.cache/flowbert"
        self.folder = None if isinstance(folder, bool) else user_path(folder)
        self._stores: dict[str, Store] = {}

    def fill(
        self,
        encoders: Sequence[Embedder],
        sentences: Sequence[str],
        step: str = "encoding",
    ) -> None:
        """Encode sentences that are missing, in one pass for all encoders of a backbone.

        Wait, for at most 30 s, while another process encodes with one of them.

        Args:
            encoders: The encoders.
            sentences: Sentences in any order, with or without repetitions.
            step: Name of the progress bar.

        Raises:
            UserError: If the folder cannot be written.
            KeyboardInterrupt: After Ctrl-C, with a message on what is stored.
        """
        passes: dict[str, dict[Store, Embedder]] = {}
        for part, store in self._find_stores(encoders):
            passes.setdefault(part.backbone_key, {})[store] = part
        texts = sorted(set(sentences), key=lambda text: (len(text), text))
        keys = _keys(texts)
        for parts in passes.values():
            try:
                with _writing(self.folder), ExitStack() as locks:
                    if _missing(parts, keys):
                        # In one order, or two processes could wait for each other.
                        deadline = time.monotonic() + LONGEST_WAIT_SECONDS
                        for store in sorted(parts, key=lambda store: store.name):
                            locks.enter_context(store.lock(deadline))
                        _encode_missing(parts, texts, keys, step)
            except KeyboardInterrupt as error:
                if self.folder is None:
                    raise
                message = "the cache has what is finished; the same command resumes"
                raise KeyboardInterrupt(message) from error

    def rows(self, encoder: Embedder, sentences: Sequence[str]) -> Vectors:
        """A copy of the vectors of sentences, ``(N, D)``; missing ones are encoded.

        The copy is in memory, or above 1 GB in a temporary file.
        """
        stores = [store for _, store in self._find_stores([encoder])]
        sentences = as_sentences(sentences)
        keys = _keys(sentences)
        for _ in range(3):  # damage may show only when vectors are added
            with _writing(self.folder):
                values = _copy_rows(stores, keys)
            if values is not None:
                return Vectors(values)
            self.fill([encoder], sentences)
        raise UserError(
            f"{self.folder} is damaged repeatedly; set FLOWBERT_CACHE to a folder on an "
            "intact disk",
            argument="cache",
        )

    def _find_stores(
        self, encoders: Sequence[Embedder]
    ) -> list[tuple[Embedder, Store]]:
        """Find the stores of encoders, or of their parts, by their current identities."""
        found = []
        with digests_reused(), _writing(self.folder):
            for encoder in encoders:
                for part in getattr(encoder, "parts", [encoder]):
                    name = digest(part.identity, computation())
                    if name not in self._stores:
                        # Others may read the files if its identity is valid beyond this process.
                        is_on_disk = getattr(part, "is_on_disk", True)
                        is_cached = getattr(part, "is_cached", is_on_disk)
                        folder = self.folder if is_cached else None
                        self._stores[name] = Store(folder, name, part.dim)
                    found.append((part, self._stores[name]))
        return found


def _copy_rows(stores: Sequence[Store], keys: Sequence[bytes]) -> Floats | None:
    """Averages of the vectors of several stores, ``(N, D)``; None if a vector is missing."""
    shape = len(keys), stores[0].dim
    rows: Floats = np.empty(shape, np.float32)
    if rows.nbytes > MEMORY_BYTES:
        with tempfile.TemporaryFile() as file:
            rows = np.memmap(file, np.float32, "w+", shape=shape)
    start = 0
    for parts in zip(*(store.read(keys) for store in stores), strict=True):
        blocks = [part for part in parts if part is not None]
        if len(blocks) < len(parts):
            return None
        mean = sum(blocks[1:], blocks[0]) / np.float32(len(blocks))
        rows[start : start + len(mean)] = mean
        start += len(mean)
        release_pages(rows)
    return rows


@contextmanager
def _writing(folder: Path | None) -> Iterator[None]:
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        raise UserError(
            f"{folder}, or {tempfile.gettempdir()}, cannot be written ({error}); set "
            "FLOWBERT_CACHE or TMPDIR to a folder with free space",
            argument="cache",
        ) from error


def _encode_missing(
    parts: Mapping[Store, Embedder],
    texts: Sequence[str],
    keys: Sequence[bytes],
    step: str,
) -> None:
    """Encode the missing sentences in one pass, and store the vectors block by block."""
    todo = _missing(parts, keys)
    with cuts_summed(), bar(step, len(todo)) as advance:
        for start in range(0, len(todo), BLOCK_SENTENCES):
            block = todo[start : start + BLOCK_SENTENCES]
            sentences = [texts[i] for i in block]
            vectors = encode_counted(list(parts.values()), sentences, advance)
            for store, rows in zip(parts, vectors, strict=True):
                store.add([keys[i] for i in block], rows)


def _missing(stores: Iterable[Store], keys: Sequence[bytes]) -> list[int]:
    """Indices of the sentences that are not in a store."""
    found = [store.find(keys) for store in stores]
    return [i for i, key in enumerate(keys) if not all(key in each for each in found)]


def _keys(sentences: Sequence[str]) -> list[bytes]:
    return [
        hashlib.blake2b(text.encode(), digest_size=KEY_BYTES).digest()
        for text in sentences
    ]

"""Vectors of sentences, computed once: in files that runs and processes share."""

import hashlib
import math
import os
import sqlite3
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from flowbert.arrays import Floats, Indices
from flowbert.encoders.base import BLOCK_SENTENCES, Encoder, digests_reused
from flowbert.encoders.encoder import SentenceEncoder
from flowbert.errors import FlowbertWarning, UserError
from flowbert.io import digest
from flowbert.progress import bar
from flowbert.vectors.base import Vectors
from flowbert.vectors.owners import Owner, describe_owner
from flowbert.vectors.store import KEY_BYTES, Claim, FileStore, MemoryStore, Store

VERSION = 2
"""Raised with every change of the code that moves vectors: older files are then left alone."""

PATIENCE_SECONDS = 5.0
"""Time after which is said which process is waited for."""

_PAUSE_SECONDS = 0.1
_OWNERS = ".encoding"


class EmbeddingCache:
    """Vectors of encoders, in files or in memory; each distinct sentence is encoded once.

    Processes that encode different sentences do not wait for each other; of those that encode the
    same, each does a part. An interruption loses at most what was being encoded. Vectors of damaged
    or foreign files are ignored with a warning, and their sentences are encoded again.

    Args:
        folder: Folder of the files; None for the environment variable FLOWBERT_CACHE, or else
            ``~/.cache/flowbert``; False for memory.

    Raises:
        UserError: If the home folder is unknown.

    Example:
        >>> from flowbert.encoders import SentenceEncoder
        >>> cache = EmbeddingCache(folder=False)
        >>> cache.rows(SentenceEncoder("builtin-sample"), ["a dog", "a cat", "a dog"])[:].shape
        (3, 128)
    """

    def __init__(self, folder: str | Path | bool | None = None) -> None:
        if folder is None:
            folder = os.environ.get("FLOWBERT_CACHE") or "~/.cache/flowbert"
        self.folder = None
        if not isinstance(folder, bool):
            self.folder = Path(os.path.expanduser(folder))
            if str(self.folder).startswith("~"):
                raise UserError(
                    f"received {folder}, and the home folder is unknown; expected HOME, or "
                    "another folder, which FLOWBERT_CACHE chooses, too",
                    argument="cache",
                )
        self._stores: dict[str, Store] = {}

    def fill(self, encoders: Sequence[Encoder], sentences: Sequence[str]) -> None:
        """Encode sentences that are missing, in one pass for all encoders of a backbone.

        It waits for sentences that another process is encoding.

        Args:
            encoders: The encoders.
            sentences: Sentences in any order, repeated ones too.

        Raises:
            UserError: If the folder cannot be written.
            KeyboardInterrupt: After Ctrl-C; its message tells what is in the files.
        """
        self._fill(self._find_stores(encoders), sentences)

    def _fill(
        self,
        found: Sequence[tuple[Encoder, Store]],
        sentences: Sequence[str],
    ) -> None:
        if isinstance(sentences, str):
            raise TypeError("sentences: received a string; expected a list of strings")
        passes: dict[str, dict[Store, Encoder]] = {}
        for part, store in found:
            passes.setdefault(part.pass_key, {})[store] = part
        texts = sorted(set(sentences), key=lambda text: (len(text), text))
        keys = _keys(texts)
        for parts in passes.values():
            if len(_missing(parts, keys)):
                with self._writing(), self._told_what_is_kept(parts, keys):
                    _encode_missing(parts, texts, keys, self.folder)

    def rows(self, encoder: Encoder, sentences: Sequence[str]) -> "CachedVectors":
        """Vectors of sentences, ``(N, D)``, read when asked for; missing ones are encoded."""
        found = self._find_stores([encoder])
        self._fill(found, sentences)
        keys = _keys(sentences)
        return CachedVectors([(store, store.find(keys)) for _, store in found])

    def _find_stores(self, encoders: Sequence[Encoder]) -> list[tuple[Encoder, Store]]:
        """The parts of encoders with the stores of their vectors, by what they are now."""
        found = []
        with digests_reused(), self._writing():
            for encoder in encoders:
                for part in _parts(encoder):
                    found.append((part, self._store(part)))
        return found

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            raise UserError(
                f"{self.folder} cannot be written ({error}); expected a folder with free space, "
                "which FLOWBERT_CACHE chooses",
                argument="cache",
            ) from error

    @contextmanager
    def _told_what_is_kept(
        self, parts: Mapping[Store, Encoder], keys: Sequence[bytes]
    ) -> Iterator[None]:
        try:
            yield
        except KeyboardInterrupt as error:
            if self.folder is None:
                raise
            kept = len(keys) - len(_missing(parts, keys))
            raise KeyboardInterrupt(
                f"{kept} of {len(keys)} sentences are in the cache; the same command resumes"
            ) from error

    def _store(self, encoder: Encoder) -> Store:
        identity = encoder.identity
        name = digest(identity, VERSION)
        if name not in self._stores:
            lasting = getattr(encoder, "lasting", True)  # others may read its files
            folder = self.folder / name if self.folder and lasting else None
            self._stores[name] = (
                FileStore(folder, encoder.dim) if folder else MemoryStore(encoder.dim)
            )
        return self._stores[name]


class CachedVectors(Vectors):
    """Vectors of sentences in a cache; memory holds 8 bytes per row, whatever is read.

    Args:
        parts: Stores whose vectors are averaged, and the rows of the sentences in each, ``(N,)``.
    """

    def __init__(self, parts: Sequence[tuple[Store, Indices]]) -> None:
        self._parts = parts
        store, rows = parts[0]
        self.shape = len(rows), store.dim

    def take(self, indices: Indices) -> Floats:
        """A copy of some rows, ``(n, D)``, float32."""
        total, *others = (store.take(rows[indices]) for store, rows in self._parts)
        for vectors in others:
            total += vectors
        return total / np.float32(1 + len(others)) if others else total


def _encode_missing(
    parts: Mapping[Store, Encoder],
    texts: Sequence[str],
    keys: Sequence[bytes],
    folder: Path | None,
) -> None:
    """Encode what is missing in one pass, block by block, and wait for what others encode."""
    owners = None if folder is None else folder / _OWNERS
    todo = _missing(parts, keys)
    patience = time.monotonic() + PATIENCE_SECONDS
    with (
        Owner(owners) as owner,
        bar(desc="Encoding", total=len(todo), unit="sentences") as progress,
    ):
        while len(todo):
            others: set[str] = set()
            done = 0
            for start in range(0, len(todo), BLOCK_SENTENCES):
                block = [int(i) for i in todo[start : start + BLOCK_SENTENCES]]
                chosen = {keys[i]: texts[i] for i in block}
                claims = [store.claim(list(chosen), owner) for store in parts]
                done += _encode_claims(parts, claims, chosen, progress)
                others.update(*(claim.owners for claim in claims))
            before, todo = len(todo), _missing(parts, keys)
            progress.update(before - len(todo) - done)
            if done or not others:
                patience = time.monotonic() + PATIENCE_SECONDS
                continue
            if time.monotonic() > patience:
                names = ", ".join(sorted(map(describe_owner, others)))
                message = f"cache: waits for {names}, encoding {len(todo)} sentences"
                warnings.warn(message, FlowbertWarning, stacklevel=2)
                patience = math.inf
            time.sleep(_PAUSE_SECONDS)


def _missing(stores: Iterable[Store], keys: Sequence[bytes]) -> Indices:
    """Indices of the sentences that a store lacks."""
    return np.flatnonzero(np.any([store.find(keys) < 0 for store in stores], axis=0))


def _encode_claims(
    parts: Mapping[Store, Encoder],
    claims: Sequence[Claim],
    texts: Mapping[bytes, str],
    progress: Any,
) -> int:
    """Encode what was claimed, and keep it; the number of sentences."""
    wanted = set().union(*(claim.keys for claim in claims))
    keys = [key for key in texts if key in wanted]
    if not keys:
        return 0
    vectors = _encode(list(parts.values()), [texts[key] for key in keys], progress)
    rows = {key: row for row, key in enumerate(keys)}
    for store, claim, own in zip(parts, claims, vectors, strict=True):
        if claim.keys:
            store.publish(claim, own[[rows[key] for key in claim.keys]])
    return len(keys)


def _encode(
    encoders: Sequence[Any], sentences: Sequence[str], progress: Any
) -> list[Floats]:
    if isinstance(encoders[0], SentenceEncoder):
        readouts = [encoder.readout for encoder in encoders]
        return encoders[0].read(readouts, sentences, on_batch=progress.update)
    (encoder,) = encoders  # all others have a pass of their own
    vectors = encoder.encode(sentences)
    progress.update(len(sentences))
    return [vectors]


def _parts(encoder: Encoder) -> Sequence[Encoder]:
    return encoder.parts if isinstance(encoder, SentenceEncoder) else [encoder]


def _keys(sentences: Sequence[str]) -> list[bytes]:
    return [
        hashlib.blake2b(text.encode(), digest_size=KEY_BYTES).digest()
        for text in sentences
    ]

"""Embeddings of distinct sentences, each encoded once: on disk in checked shards, or in memory."""

import json
import os
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from flowbert.errors import UserError
from flowbert.io.atomic import written_atomically
from flowbert.io.container import DamagedError, read_tensor
from flowbert.io.digest import digest_bytes, digest_json
from flowbert.processes import Processes, exchanged
from flowbert.store.base import Digests, Encoder, Floats, Rows, Store
from flowbert.store.shards import (
    SUFFIX,
    Shard,
    mapped,
    read_shard,
    reading,
    release,
    set_aside,
    stamp,
    unreadable,
    write_shard,
    writing,
)

__all__ = ["EmbeddingStore", "Encoder", "MemoryStore", "Store"]

_ABANDONED_SECONDS = 600.0  # a shard is written in seconds; a temporary file this old has no writer any more


class MemoryStore(Store):
    """A store in memory, for runs that leave nothing on disk.

    Args:
        encoder: Anything with ``dim``, ``key()`` and ``encode()``.
        shard_rows: Sentences per call of ``encode``.

    Example:
        >>> import numpy as np
        >>> class Lengths:
        ...     dim = 1
        ...     def key(self):
        ...         return {}
        ...     def encode(self, sentences, *, on_batch=None):
        ...         return np.array([[len(s)] for s in sentences], dtype=np.float32)
        >>> MemoryStore(Lengths()).embeddings(["to be", "or", "to be"]).ravel()
        array([5., 2., 5.], dtype=float32)
    """

    def __init__(self, encoder: Encoder, shard_rows: int = 4096) -> None:
        super().__init__(encoder, shard_rows)
        self._embedded: list[Floats] = []

    def gather(self, sentences: Sequence[str], processes: Processes) -> None:
        """Let the processes send each other everything that they have."""
        del sentences
        mine = list(zip(self._digests, self._embedded, strict=True))
        for source, content in enumerate(exchanged(processes, mine)):
            if source != processes.global_rank:
                new = [self._find(digests) < 0 for digests, _ in content]
                for (digests, embeddings), rows in zip(content, new, strict=True):
                    self._keep(digests[rows], embeddings[rows])

    def _keep(self, digests: Digests, embeddings: Floats) -> None:
        self._embedded.append(embeddings)
        self._append(digests)

    def _embeddings(self, shard: int) -> Floats:
        return self._embedded[shard]


class EmbeddingStore(Store):
    """A store in a folder of safetensors shards, memory-mapped, shared by runs and processes.

    Every shard is written under a temporary name and then renamed, so an interruption at any moment leaves whole shards
    only, and the next run encodes the rest. The sentences of a shard are verified when it is found, its embeddings when
    one of them is first asked for. A shard whose content proves that it is damaged, or of another encoder, is set aside
    with a warning (``<name>.rejected``) and its sentences count as missing. A shard that cannot be read stays where it
    is, and the error says why.

    With several processes: every process calls :meth:`add` with the same sentences, all wait for each other, and every
    process calls :meth:`refresh`.

    Args:
        root: Folder of all stores; this one is the sub-folder named by the digest of ``encoder.key()``. Default:
            the environment variable FLOWBERT_CACHE, else ``~/.cache/flowbert``.
        encoder: Anything with ``dim``, ``key()`` and ``encode()``.
        shard_rows: Sentences per call of ``encode`` and, but for remainders, per file.

    Attributes:
        folder: Where the shards lie, beside ``key.json``, which says whose embeddings they are.

    Raises:
        UserError: If the folder cannot be made or written, or a shard cannot be read.

    Example:
        >>> store = EmbeddingStore(None, encoder)  # doctest: +SKIP
        >>> store.add(["to be", "or not", "to be"])  # doctest: +SKIP
        >>> len(store), store.take(store.rows(["or not"])).shape  # doctest: +SKIP
        (2, (1, 384))
    """

    def __init__(self, root: Path | str | None, encoder: Encoder, shard_rows: int = 4096) -> None:
        super().__init__(encoder, shard_rows)
        self._key = encoder.key()
        self.folder = (default_root() if root is None else Path(root)) / digest_json(self._key)
        self._shards: list[Shard] = []
        self._opened: set[str] = set()
        self._verified: set[int] = set()
        with writing(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        self._write_key()
        self._clean()
        self.refresh()

    def refresh(self) -> None:
        """Find the shards that appeared since the last look; earlier row numbers stay valid."""
        try:
            names = sorted(os.listdir(self.folder))
        except OSError as error:
            raise unreadable(self.folder, error) from error
        for name in names:
            if name.endswith(SUFFIX) and not name.startswith(".") and name not in self._opened:
                self._open(self.folder / name)

    def gather(self, sentences: Sequence[str], processes: Processes) -> None:
        """Wait for the processes and look at the folder again."""
        processes.barrier("embedding store")
        self.refresh()
        lacking = len(self.missing(sentences)) if processes.world_size > 1 else 0
        if lacking:
            raise UserError(
                f"store_dir: {lacking} sentences that other processes have encoded are not in {self.folder.parent}; "
                "allowed: a folder that all machines share"
            )

    def _keep(self, digests: Digests, embeddings: Floats) -> None:
        path = self.folder / f"{digest_bytes(digests.tobytes())}{SUFFIX}"
        write_shard(path, digests, embeddings, self._key)
        self._open(path)

    def _open(self, path: Path) -> None:
        """Take in the sentences of a shard, verified."""
        with reading(path) as file:
            if file is None:
                return  # another process has just set it aside
            try:
                digests, entry = read_shard(file, self._key, self.encoder.dim)
            except DamagedError as error:
                set_aside(path, file, error)
                return
            self._shards.append(Shard(path, entry, stamp(file)))
        self._opened.add(path.name)
        self._append(digests)

    def _usable(self, shards: Iterable[int]) -> bool:
        return all(number in self._verified or self._verify(number) for number in shards)

    def _verify(self, number: int) -> bool:
        """Verify the embeddings of a shard; one that is damaged or gone is dropped."""
        shard = self._shards[number]
        gone = True  # set aside by another process, and perhaps made again
        with reading(shard.path) as file:
            if file is not None and stamp(file) == shard.stamp:
                try:
                    read_tensor(file, shard.entry)
                    self._verified.add(number)
                    return True
                except DamagedError as error:
                    gone = set_aside(shard.path, file, error)
        self._drop(number)
        if gone:
            self._opened.discard(shard.path.name)
            self.refresh()
        return False

    def _embeddings(self, shard: int) -> Floats:
        if shard in self._verified or self._verify(shard):
            return mapped(self._shards[shard])
        raise UserError(f"{self._shards[shard].path}: damaged or gone; run again: its sentences are encoded again")

    def _take_of(self, shard: int, rows: Rows) -> Floats:
        found = super()._take_of(shard, rows)  # a copy
        release(self._shards[shard])
        return found

    def _write_key(self) -> None:
        path = self.folder / "key.json"
        if not path.exists():
            with writing(path), written_atomically(path) as temporary:
                temporary.write_text(json.dumps(self._key, indent=2, sort_keys=True) + "\n", encoding="utf-8")

    def _clean(self) -> None:
        """Remove temporary files whose writer is gone."""
        for path in self.folder.glob(".*"):
            with suppress(OSError):
                if time.time() - path.stat().st_mtime > _ABANDONED_SECONDS:
                    path.unlink()


def default_root() -> Path:
    """Folder of the stores unless one is given: $FLOWBERT_CACHE, else ``~/.cache/flowbert``."""
    return Path(os.environ.get("FLOWBERT_CACHE") or Path.home() / ".cache" / "flowbert").expanduser()

"""Embeddings of distinct sentences, each encoded once: on disk in checked shards, or in memory."""

import json
import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from flowbert.errors import UserError
from flowbert.io.atomic import written_atomically
from flowbert.io.container import DamagedError, check_tensor
from flowbert.io.digest import digest_bytes, digest_json, raw_digest
from flowbert.store.shards import (
    DIGEST_TYPE,
    SUFFIX,
    Digests,
    Floats,
    Shard,
    mapped,
    read_shard,
    reading,
    set_aside,
    stamp,
    unreadable,
    unwritable,
    write_shard,
    writing,
)

Rows = npt.NDArray[np.int64]

_ABANDONED_SECONDS = 600.0  # a shard is written in seconds; a temporary file this old has no writer any more


class Encoder(Protocol):
    """What a store needs of an encoder."""

    @property
    def dim(self) -> int:
        """Embedding size D."""

    def key(self) -> dict[str, Any]:
        """Identity of the embeddings as JSON values: equal keys, equal embeddings."""

    def encode(self, sentences: Sequence[str], *, on_batch: Callable[[int], Any] | None = None) -> Floats:
        """Embed N sentences: shape ``(N, D)``, float32; ``on_batch`` receives the number of sentences of each batch."""


class Store(ABC):
    """Sentences in, rows of embeddings out; a sentence is encoded at most once.

    Row numbers belong to this object. They stay valid while it grows.

    Args:
        encoder: Anything with ``dim``, ``key()`` and ``encode()``.
        shard_rows: Sentences that are encoded by one call and kept together.

    Raises:
        ValueError: If ``shard_rows`` is below 1.
    """

    def __init__(self, encoder: Encoder, shard_rows: int = 4096) -> None:
        if shard_rows < 1:
            raise ValueError(f"shard_rows is {shard_rows}; allowed: 1 or more")
        self.encoder = encoder
        self.shard_rows = shard_rows
        self._digests: list[Digests] = []
        self._starts = [0]
        self._index: tuple[Digests, Rows] | None = None

    def __len__(self) -> int:
        return sum(map(len, self._digests))

    def add(self, sentences: Iterable[str], *, progress: bool = False, rank: int = 0, world_size: int = 1) -> None:
        """Encode the sentences that are missing.

        The distinct sentences are sorted by (number of characters, text) and cut into blocks of ``shard_rows``; what is
        missing of a block is one call of ``encode``. Blocks go to the processes in turn, whatever is stored already, so
        neither their number nor their pace changes any embedding.

        Args:
            sentences: Any sentences, repeated ones too.
            progress: Whether to show a bar over sentences; nothing is shown if nothing is missing.
            rank: Number of this process.
            world_size: Processes that share the work.

        Raises:
            UserError: If a sentence is no valid text, or the embeddings cannot be written.
            ValueError: If ``rank`` is not between 0 and ``world_size`` - 1.
        """
        if not 0 <= rank < world_size:
            raise ValueError(f"rank is {rank} with world_size {world_size}; allowed: 0 to {world_size - 1}")
        blocks = [block for block in self._blocks(sentences)[rank::world_size] if block]
        total = sum(map(len, blocks))
        # A log file gets a line now and then, a terminal a moving bar.
        interval = 0.1 if sys.stderr.isatty() else 30.0
        hidden = not (progress and blocks)
        with tqdm(total=total, desc="Encoding", unit=" sentences", mininterval=interval, disable=hidden) as bar:
            for texts, embeddings in self._encoded(blocks, bar.update):
                self._keep(_digest_all(texts), embeddings)

    def rows(self, sentences: Sequence[str]) -> Rows:
        """Row numbers of sentences that were added: shape ``(N,)``, int64.

        Raises:
            KeyError: If a sentence is not there; the message gives the first one and how many.
        """
        rows = self._find(_digest_all(sentences))
        missing = np.flatnonzero(rows < 0)
        if missing.size:
            raise KeyError(f"{missing.size} of {len(rows)} sentences were not added, first {sentences[missing[0]]!r}")
        return rows

    def missing(self, sentences: Sequence[str]) -> list[str]:
        """The sentences that are not there, in their order."""
        rows = self._find(_digest_all(sentences))
        return [text for text, row in zip(sentences, rows.tolist(), strict=True) if row < 0]

    def take(self, rows: npt.ArrayLike) -> Floats:
        """Embeddings of these rows, in this order: shape ``(N, D)``; only these are read.

        Raises:
            IndexError: If a row number is negative or too large.
        """
        wanted = np.asarray(rows, dtype=np.int64).reshape(-1)
        if wanted.size and (wanted.min() < 0 or wanted.max() >= self._starts[-1]):
            raise IndexError(f"rows {wanted.min()} to {wanted.max()}; allowed: 0 to {self._starts[-1] - 1}")
        result = np.empty((wanted.size, self.encoder.dim), dtype=np.float32)
        shard_of = self._shard_of(wanted)
        for shard in np.unique(shard_of).tolist():
            here = np.flatnonzero(shard_of == shard)
            result[here] = self._embeddings(shard)[wanted[here] - self._starts[shard]]
        return result

    def embeddings(self, sentences: Sequence[str]) -> Floats:
        """Embeddings of sentences, in their order: shape ``(N, D)``; missing ones are encoded first."""
        self.add(sentences)
        return self.take(self.rows(sentences))

    @abstractmethod
    def refresh(self) -> None:
        """Take in what other processes have added since."""

    @abstractmethod
    def _keep(self, digests: Digests, embeddings: Floats) -> None:
        """Keep the embeddings of the texts with these digests."""

    @abstractmethod
    def _embeddings(self, shard: int) -> Floats:
        """Embeddings of the shard of this number: shape ``(n, D)``."""

    def _usable(self, shards: Iterable[int]) -> bool:
        """Whether all these shards can be read; one that cannot is dropped, so that its sentences are missing."""
        return True

    def _append(self, digests: Digests) -> None:
        self._digests.append(digests)
        self._starts.append(self._starts[-1] + len(digests))
        self._index = None

    def _drop(self, shard: int) -> None:
        """Forget the sentences of a shard; the row numbers of all others stay."""
        self._digests[shard] = np.empty(0, dtype=DIGEST_TYPE)
        self._index = None

    def _shard_of(self, rows: Rows) -> Rows:
        return np.searchsorted(self._starts, rows, side="right") - 1

    def _find(self, digests: Digests) -> Rows:
        """Row of each digest, -1 where it is missing; a row that is given can be read."""
        while True:
            rows = self._look_up(digests)
            if self._usable(np.unique(self._shard_of(rows[rows >= 0])).tolist()):
                return rows

    def _look_up(self, digests: Digests) -> Rows:
        if self._index is None:
            known = np.concatenate([np.empty(0, dtype=DIGEST_TYPE), *self._digests])
            rows = [start + np.arange(len(part)) for start, part in zip(self._starts, self._digests, strict=False)]
            order = np.argsort(known, kind="stable")
            self._index = known[order], np.concatenate([np.empty(0, dtype=np.int64), *rows])[order]
        known, row = self._index
        if not known.size:
            return np.full(len(digests), -1, dtype=np.int64)
        place = np.minimum(np.searchsorted(known, digests), known.size - 1)
        return np.where(known[place] == digests, row[place], -1)

    def _blocks(self, sentences: Iterable[str]) -> list[list[str]]:
        """What is missing of each block of the plan; a block that is complete is an empty list."""
        distinct = list(dict.fromkeys(sentences))
        if (self._find(_digest_all(distinct)) >= 0).all():
            return []
        distinct.sort(key=lambda text: (len(text), text))
        missing = self._find(_digest_all(distinct)) < 0
        return [
            [distinct[i] for i in range(start, min(start + self.shard_rows, len(distinct))) if missing[i]]
            for start in range(0, len(distinct), self.shard_rows)
        ]

    def _encoded(
        self, blocks: Iterable[list[str]], on_batch: Callable[[int], Any]
    ) -> Iterator[tuple[list[str], Floats]]:
        """Encode block by block; small remainders of blocks are joined until they fill a shard."""
        texts: list[str] = []
        parts: list[Floats] = []
        for block in blocks:
            parts.append(self.encoder.encode(block, on_batch=on_batch))
            texts += block
            if len(texts) >= self.shard_rows:
                yield texts, np.concatenate(parts)
                texts, parts = [], []
        if texts:
            yield texts, np.concatenate(parts)


class MemoryStore(Store):
    """A store in memory, for runs that leave nothing on disk; each process encodes for itself.

    Args:
        encoder: Anything with ``dim``, ``key()`` and ``encode()``.
        shard_rows: Sentences per call of ``encode``.

    Example:
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
        self._parts: list[Floats] = []

    def refresh(self) -> None:
        """Do nothing: no other process can add to this memory."""

    def _keep(self, digests: Digests, embeddings: Floats) -> None:
        self._parts.append(embeddings)
        self._append(digests)

    def _embeddings(self, shard: int) -> Floats:
        return self._parts[shard]


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
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise unwritable(self.folder, error) from error
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
        bad = [number for number in shards if number not in self._verified and not self._verify(number)]
        return not bad

    def _verify(self, number: int) -> bool:
        """Verify the embeddings of a shard; one that is damaged or gone is dropped."""
        shard = self._shards[number]
        gone = True  # set aside by another process, and perhaps made again
        with reading(shard.path) as file:
            if file is not None and stamp(file) == shard.stamp:
                try:
                    check_tensor(file, shard.entry)
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


def _digest_all(sentences: Sequence[str]) -> Digests:
    """Digest of the UTF-8 bytes of each sentence: shape ``(N,)``."""
    digests = np.empty(len(sentences), dtype=DIGEST_TYPE)
    for i, sentence in enumerate(sentences):
        try:
            digests[i] = raw_digest(sentence.encode())
        except UnicodeEncodeError:
            raise UserError(f"sentence {sentence!r} holds a lone surrogate; allowed: valid Unicode text") from None
    return digests

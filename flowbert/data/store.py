"""Embeddings of distinct sentences, each encoded once: on disk in checked shards, or in memory."""

import hashlib
import json
import os
import sys
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save
from tqdm import tqdm

from flowbert.errors import FlowbertWarning, UserError
from flowbert.io.atomic import written_atomically

Floats = npt.NDArray[np.float32]
Rows = npt.NDArray[np.int64]
Digests = npt.NDArray[np.bytes_]

_DIGEST_BYTES = 16
_DIGEST_TYPE = f"S{_DIGEST_BYTES}"
_FORMAT = "flowbert-embeddings-1"
_SUFFIX = ".safetensors"
_ABANDONED_SECONDS = 600.0  # a shard is written in seconds; a temporary file this old has no writer any more
_CHECK_AT_ONCE = 1 << 24  # bytes


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
        self._shards: list[Floats] = []
        self._digests: list[Digests] = []
        self._starts = [0]
        self._index: tuple[Digests, Rows] | None = None

    def __len__(self) -> int:
        return self._starts[-1]

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
        if wanted.size and (wanted.min() < 0 or wanted.max() >= len(self)):
            raise IndexError(f"rows {wanted.min()} to {wanted.max()}; allowed: 0 to {len(self) - 1}")
        result = np.empty((wanted.size, self.encoder.dim), dtype=np.float32)
        shard_of = np.searchsorted(self._starts, wanted, side="right") - 1
        for shard in np.unique(shard_of):
            here = np.flatnonzero(shard_of == shard)
            result[here] = self._shards[shard][wanted[here] - self._starts[shard]]
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

    def _append(self, digests: Digests, embeddings: Floats) -> None:
        self._shards.append(embeddings)
        self._digests.append(digests)
        self._starts.append(self._starts[-1] + len(digests))
        self._index = None

    def _find(self, digests: Digests) -> Rows:
        """Row of each digest, -1 where it is missing."""
        if self._index is None:
            known = np.concatenate([np.empty(0, dtype=_DIGEST_TYPE), *self._digests])
            order = np.argsort(known, kind="stable")
            self._index = known[order], order.astype(np.int64)
        known, order = self._index
        if not known.size:
            return np.full(len(digests), -1, dtype=np.int64)
        place = np.minimum(np.searchsorted(known, digests), known.size - 1)
        return np.where(known[place] == digests, order[place], -1)

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

    def refresh(self) -> None:
        """Do nothing: no other process can add to this memory."""

    def _keep(self, digests: Digests, embeddings: Floats) -> None:
        self._append(digests, embeddings)


class EmbeddingStore(Store):
    """A store in a folder of safetensors shards, memory-mapped, shared by runs and processes.

    Every shard is written under a temporary name and then renamed, so an interruption at any moment leaves whole shards
    only, and the next run encodes the rest. Shards are verified when they are opened; one that is damaged or belongs to
    another encoder is set aside with a warning (``<name>.rejected``) and its sentences count as missing.

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
        UserError: If the folder cannot be made or written.

    Example:
        >>> store = EmbeddingStore(None, encoder)  # doctest: +SKIP
        >>> store.add(["to be", "or not", "to be"])  # doctest: +SKIP
        >>> len(store), store.take(store.rows(["or not"])).shape  # doctest: +SKIP
        (2, (1, 384))
    """

    def __init__(self, root: Path | str | None, encoder: Encoder, shard_rows: int = 4096) -> None:
        super().__init__(encoder, shard_rows)
        self._key = json.dumps(encoder.key(), sort_keys=True)
        self.folder = (default_root() if root is None else Path(root)) / _hex_digest(self._key.encode())
        self._opened: set[str] = set()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _unwritable(self.folder, error) from error
        self._write_key()
        self._clean()
        self.refresh()

    def refresh(self) -> None:
        """Open the shards that appeared since the last look; earlier row numbers stay valid."""
        for path in sorted(self.folder.glob(f"[!.]*{_SUFFIX}")):
            if path.name not in self._opened:
                self._open(path)

    def _keep(self, digests: Digests, embeddings: Floats) -> None:
        content: dict[str, npt.NDArray[Any]] = {
            "digests": digests.view(np.uint8).reshape(-1, _DIGEST_BYTES),
            "embeddings": np.ascontiguousarray(embeddings, dtype=np.float32),
        }
        checksum = _checksum([content["digests"], content["embeddings"]])
        path = self.folder / f"{_hex_digest(digests.tobytes())}{_SUFFIX}"
        _write(path, save(content, {"format": _FORMAT, "key": self._key, "checksum": checksum}))
        self._open(path)

    def _open(self, path: Path) -> None:
        try:
            digests, embeddings = _read_shard(path, self._key, self.encoder.dim)
        except FileNotFoundError:
            return  # another process has just set it aside
        except (OSError, ValueError) as error:
            with suppress(OSError):
                path.replace(path.with_name(f"{path.name}.rejected"))
            warnings.warn(f"{path}: {error}; it is not used and its sentences are encoded again", FlowbertWarning, 2)
            return
        self._opened.add(path.name)
        self._append(digests, embeddings)

    def _write_key(self) -> None:
        path = self.folder / "key.json"
        if not path.exists():
            _write(path, (json.dumps(json.loads(self._key), indent=2, sort_keys=True) + "\n").encode())

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
    digests = np.empty(len(sentences), dtype=_DIGEST_TYPE)
    for i, sentence in enumerate(sentences):
        try:
            digests[i] = hashlib.blake2b(sentence.encode(), digest_size=_DIGEST_BYTES).digest()
        except UnicodeEncodeError:
            raise UserError(f"sentence {sentence!r} holds a lone surrogate; allowed: valid Unicode text") from None
    return digests


def _hex_digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).hexdigest()


def _checksum(arrays: Iterable[npt.NDArray[Any]]) -> str:
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for array in arrays:
        content = array.reshape(-1).view(np.uint8)
        for start in range(0, content.size, _CHECK_AT_ONCE):
            digest.update(content[start : start + _CHECK_AT_ONCE].data)
    return digest.hexdigest()


def _read_shard(path: Path, key: str, dim: int) -> tuple[Digests, Floats]:
    """Digests in memory and embeddings mapped from the file, both verified.

    Raises:
        ValueError: If the file is damaged or holds something else; the message says what.
        OSError: If it cannot be read.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        header_size = int.from_bytes(file.read(8), "little")
        if size < 8 + header_size:
            raise ValueError("the file is cut short")
        try:
            header = json.loads(file.read(header_size))
            metadata, rows = dict(header["__metadata__"]), int(header["digests"]["shape"][0])
            offsets = {
                name: 8 + header_size + int(header[name]["data_offsets"][0]) for name in ("digests", "embeddings")
            }
            dtypes = (header["digests"]["dtype"], header["embeddings"]["dtype"])
            shape = header["embeddings"]["shape"]
        except (ValueError, KeyError, TypeError, IndexError):
            raise ValueError("the header is damaged") from None
    if metadata.get("format") != _FORMAT or metadata.get("key") != key:
        raise ValueError("the embeddings are of another encoder or format")
    if dtypes != ("U8", "F32") or shape != [rows, dim]:
        raise ValueError(f"the embeddings are {shape} {dtypes[1]} instead of {[rows, dim]} F32")
    if size != 8 + header_size + rows * (_DIGEST_BYTES + 4 * dim):
        raise ValueError(f"the file is cut short or too long ({size} bytes)")
    digests = np.memmap(path, np.uint8, "r", offsets["digests"], (rows, _DIGEST_BYTES))
    embeddings = np.memmap(path, np.float32, "r", offsets["embeddings"], (rows, dim))
    if metadata.get("checksum") != _checksum([digests, embeddings]):
        raise ValueError("the checksum does not match, the file is damaged")
    return np.array(digests).view(_DIGEST_TYPE).reshape(-1), embeddings


def _write(path: Path, content: bytes) -> None:
    try:
        with written_atomically(path) as temporary:
            temporary.write_bytes(content)
    except OSError as error:
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> UserError:
    reason = error.strerror or str(error)
    return UserError(
        f"cannot write {path}: {reason}; allowed: a folder with space, chosen by FLOWBERT_CACHE or the options"
    )

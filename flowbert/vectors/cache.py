"""Vectors of sentences, computed once: in content-named files that runs and processes share."""

import hashlib
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock
from safetensors import SafetensorError, safe_open

from flowbert.arrays import Floats, Indices
from flowbert.encoders.base import Encoder, unchanged
from flowbert.encoders.encoder import AveragedLayers, SentenceEncoder, encode_variants
from flowbert.errors import FlowbertWarning, UserError
from flowbert.io import digest, load_tensors, map_array, release_pages, save_tensors
from flowbert.progress import bar
from flowbert.vectors.base import Vectors

BLOCK_ROWS = 4096
"""Sentences per file; an interruption loses at most one."""

VERSION = 1
"""Raised with every change of the code that moves vectors: older files are then left alone."""

_KIND = "embeddings"
_MOST_OPEN = max(1, os.sysconf("SC_OPEN_MAX") // 4)  # each memory map keeps a file open


class EmbeddingCache:
    """Vectors of encoders, in files or in memory; each distinct sentence is encoded once.

    Files are written under a temporary name and renamed, so that an interruption leaves whole files
    only. A file's digest is checked when its rows are first read; a damaged or foreign file is
    ignored with a warning, and its sentences are encoded again.

    Args:
        folder: Folder of the files; None for the environment variable FLOWBERT_CACHE, or else
            ``~/.cache/flowbert``; False for memory.

    Example:
        >>> from flowbert.encoders import SentenceEncoder
        >>> cache = EmbeddingCache(folder=False)
        >>> cache.embed(SentenceEncoder("builtin-sample"), ["a dog", "a cat", "a dog"]).shape
        (3, 128)
    """

    def __init__(self, folder: str | Path | bool | None = None) -> None:
        if folder is None:
            folder = os.environ.get("FLOWBERT_CACHE") or "~/.cache/flowbert"
        self.folder = None if isinstance(folder, bool) else Path(folder).expanduser()
        self._tables: dict[str, _Table] = {}

    def fill(self, encoders: Sequence[Encoder], sentences: Sequence[str]) -> None:
        """Encode sentences that are missing, in one pass for all encoders of a backbone.

        Processes started together wait for each other and encode a sentence once.

        Args:
            encoders: The encoders.
            sentences: Sentences in any order, repeated ones too.

        Raises:
            UserError: If the folder cannot be written.
        """
        self._fill(self._find_tables(encoders), sentences)

    def _fill(
        self,
        found: Sequence[tuple[Encoder, "_Table"]],
        sentences: Sequence[str],
    ) -> None:
        if isinstance(sentences, str):
            raise TypeError("sentences: received a string; expected a list of strings")
        passes: dict[str, dict[_Table, Encoder]] = {}
        for part, table in found:
            passes.setdefault(part.pass_key, {})[table] = part
        texts = sorted(set(sentences), key=lambda text: (len(text), text))
        digests = _digests(texts)
        for parts in passes.values():
            if any((table.find(digests) < 0).any() for table in parts):
                try:
                    _encode_missing(parts, texts, digests)
                except (OSError, SafetensorError) as error:
                    raise UserError(
                        f"{self.folder} cannot be written ({error}); expected a folder with "
                        "free space, which FLOWBERT_CACHE chooses",
                        argument="cache",
                    ) from error

    def rows(self, encoder: Encoder, sentences: Sequence[str]) -> "CachedVectors":
        """Vectors of sentences that are read when they are indexed; missing ones are encoded."""
        found = self._find_tables([encoder])
        self._fill(found, sentences)
        digests = _digests(sentences)
        return CachedVectors([(table, table.find(digests)) for _, table in found])

    def embed(self, encoder: Encoder, sentences: Sequence[str]) -> Floats:
        """Vectors of sentences, ``(N, D)``, float32; missing ones are encoded."""
        return self.rows(encoder, sentences)[:]

    def _find_tables(
        self, encoders: Sequence[Encoder]
    ) -> list[tuple[Encoder, "_Table"]]:
        """The parts of encoders with the tables of their vectors, by what they are now."""
        found = []
        with unchanged():
            for encoder in encoders:
                for part in _parts(encoder):
                    found.append((part, self._table(part)))
        return found

    def _table(self, encoder: Encoder) -> "_Table":
        identity = encoder.identity
        name = digest(identity, VERSION)
        if name not in self._tables:
            lasting = getattr(encoder, "lasting", True)  # others may read its files
            folder = self.folder / name if self.folder and lasting else None
            self._tables[name] = _Table(folder, identity, encoder.dim)
        return self._tables[name]


class CachedVectors(Vectors):
    """Vectors of sentences in a cache; memory holds 8 bytes per row, whatever is read.

    Args:
        parts: Tables whose vectors are averaged, and the indices of the rows in each, ``(N,)``.
    """

    def __init__(self, parts: "Sequence[tuple[_Table, Indices]]") -> None:
        self._parts = parts
        table, rows = parts[0]
        self.shape = len(rows), table.dim

    def take(self, indices: Indices) -> Floats:
        """A copy of some rows, ``(n, D)``, float32."""
        total, *others = (table.take(rows[indices]) for table, rows in self._parts)
        for vectors in others:
            total += vectors
        return total / np.float32(1 + len(others)) if others else total


class _Table:
    """Vectors of one encoder in blocks, which are files or arrays; rows are numbered over all."""

    def __init__(
        self, folder: Path | None, identity: Mapping[str, Any], dim: int
    ) -> None:
        self.folder = folder
        self.dim = dim
        self._identity = identity
        self._blocks: list[Path | Floats] = []
        self._starts = [0]
        self._checked: set[int] = set()
        self._rows: dict[bytes, int] = {}
        self._refresh()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from encoding, and read what they have written."""
        if self.folder is None:
            yield
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        with FileLock(self.folder / ".lock"):
            # Of a process that was killed.
            for leftover in self.folder.glob(".*.safetensors"):
                leftover.unlink()
            self._refresh()
            yield

    def _refresh(self) -> None:
        files = [] if self.folder is None else self.folder.glob("[0-9a-f]*.safetensors")
        for path in sorted(files):
            if path not in self._blocks:
                digests: list[bytes] = []
                try:
                    with safe_open(path, framework="np") as file:
                        digests = [row.tobytes() for row in file.get_tensor("digests")]
                except (OSError, SafetensorError) as error:
                    _warn(path, error)
                self._append(path, digests)

    def add(self, digests: Sequence[bytes], vectors: Floats) -> None:
        """Keep the vectors of sentences that are missing."""
        block: Path | Floats = vectors
        if self.folder is not None:
            block = self.folder / f"{digest(*digests)}.safetensors"
            codes = np.array([list(code) for code in digests], dtype=np.uint8)
            content: dict[str, Any] = {"digests": codes, "embeddings": vectors}
            save_tensors(block, _KIND, content, encoder=self._identity)
            _mapped.cache_clear()  # the file may have replaced a damaged one
        self._checked.add(len(self._blocks))
        self._append(block, digests)

    def _append(self, block: Path | Floats, digests: Sequence[bytes]) -> None:
        start = self._starts[-1]
        self._rows.update({code: start + number for number, code in enumerate(digests)})
        self._blocks.append(block)
        self._starts.append(start + len(digests))

    def find(self, digests: Sequence[bytes]) -> Indices:
        """Row number of each sentence in an intact block, -1 where there is none."""
        rows = np.array([self._rows.get(code, -1) for code in digests], dtype=np.int64)
        blocks = self._block_of(rows)
        for number in set(blocks[rows >= 0].tolist()) - self._checked:
            if not self._is_intact(number):
                rows[blocks == number] = -1
        return rows

    def _is_intact(self, number: int) -> bool:
        """Check a file; a damaged or foreign one is left out."""
        path: Any = self._blocks[number]
        start, stop = self._starts[number], self._starts[number + 1]
        try:
            if load_tensors(path, _KIND)[1].get("encoder") != self._identity:
                raise UserError("vectors of another encoder")
        except UserError as error:
            _warn(path, error)
            rows = self._rows.items()
            self._rows = {code: row for code, row in rows if not start <= row < stop}
            return False
        self._checked.add(number)
        return True

    def take(self, rows: Indices) -> Floats:
        """Vectors of row numbers, ``(n, D)``; pages that were read are released."""
        rows = rows.reshape(-1)
        result = np.empty((len(rows), self.dim), dtype=np.float32)
        blocks = self._block_of(rows)
        for number in np.unique(blocks).tolist():
            chosen = np.flatnonzero(blocks == number)
            block = self._blocks[number]
            array = _mapped(block) if isinstance(block, Path) else block
            result[chosen] = array[rows[chosen] - self._starts[number]]
            release_pages(array)
        return result

    def _block_of(self, rows: Indices) -> Indices:
        return np.searchsorted(self._starts, rows, side="right") - 1


def _encode_missing(
    parts: Mapping[_Table, Encoder], texts: Sequence[str], digests: Sequence[bytes]
) -> None:
    """Encode what is missing in one pass, block by block, and keep it."""
    encoders = list(parts.values())
    with ExitStack() as stack:
        # One order for all processes, so that no two wait for each other.
        for table in sorted(parts, key=lambda table: str(table.folder)):
            stack.enter_context(table.locked())
        missing = [table.find(digests) < 0 for table in parts]
        todo = np.flatnonzero(np.any(missing, axis=0))
        progress = stack.enter_context(
            bar(desc="Encoding", total=len(todo), unit="sentences")
        )
        for start in range(0, len(todo), BLOCK_ROWS):
            block = todo[start : start + BLOCK_ROWS]
            vectors = _encode(encoders, [texts[i] for i in block], progress)
            for table, lacking, rows in zip(parts, missing, vectors, strict=True):
                new = lacking[block]
                if new.any():
                    table.add([digests[i] for i in block[new]], rows[new])


def _encode(
    encoders: Sequence[Any], sentences: Sequence[str], progress: Any
) -> list[Floats]:
    if isinstance(encoders[0], SentenceEncoder):
        return encode_variants(encoders, sentences, on_batch=progress.update)
    (encoder,) = encoders  # all others have a pass of their own
    vectors = encoder.encode(sentences)
    progress.update(len(sentences))
    return [vectors]


def _parts(encoder: Encoder) -> Sequence[Encoder]:
    return encoder.parts if isinstance(encoder, AveragedLayers) else [encoder]


def _digests(sentences: Sequence[str]) -> list[bytes]:
    return [
        hashlib.blake2b(text.encode(), digest_size=16).digest() for text in sentences
    ]


@lru_cache(maxsize=_MOST_OPEN)
def _mapped(path: Path) -> Floats:
    return map_array(path, "embeddings")


def _warn(path: Path, error: Exception) -> None:
    message = f"{path}: ignored, its sentences are encoded again ({error})"
    warnings.warn(message, FlowbertWarning, stacklevel=2)

"""What every store of embeddings does: each distinct sentence is encoded once, and found again by its digest."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from flowbert.errors import UserError
from flowbert.io.digest import DIGEST_BYTES, raw_digest
from flowbert.processes import Processes
from flowbert.progress import progress

Floats = npt.NDArray[np.float32]
Digests = npt.NDArray[np.bytes_]
Rows = npt.NDArray[np.int64]

DIGEST_TYPE = f"S{DIGEST_BYTES}"


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

    def add(self, sentences: Iterable[str], *, rank: int = 0, world_size: int = 1) -> None:
        """Encode the sentences that are missing.

        The distinct sentences are sorted by (number of characters, text) and cut into blocks of ``shard_rows``; what is
        missing of a block is one call of ``encode``. Blocks go to the processes in turn, whatever is stored already, so
        neither their number nor their pace changes any embedding.

        Args:
            sentences: Any sentences, repeated ones too.
            rank: Number of this process.
            world_size: Processes that share the work.

        Raises:
            UserError: If a sentence is no valid text, or the embeddings cannot be written.
            ValueError: If ``rank`` is not between 0 and ``world_size`` - 1.
        """
        if not 0 <= rank < world_size:
            raise ValueError(f"rank is {rank} with world_size {world_size}; allowed: 0 to {world_size - 1}")
        blocks = [block for block in self._blocks(sentences)[rank::world_size] if block]
        with progress(sum(map(len, blocks)), "Encoding", "sentences") as step:
            for texts, embeddings in self._encoded(blocks, step.update):
                self.keep(texts, embeddings)

    def keep(self, texts: Sequence[str], embeddings: Floats) -> None:
        """Keep embeddings ``(N, D)`` of texts that are missing.

        Raises:
            UserError: If a text is no valid one, or the embeddings cannot be written.
        """
        self._keep(_digest_all(texts), embeddings)

    def share(self, sentences: Iterable[str], processes: Processes) -> None:
        """Encode the sentences that are missing, each process its share; afterwards each process has all of them.

        Args:
            sentences: Any sentences, the same in all processes.
            processes: Those that share the work; every one must call.

        Raises:
            UserError: As :meth:`add`, or if what another process has encoded is not to be found.
        """
        sentences = list(sentences)
        self.add(sentences, rank=processes.global_rank, world_size=processes.world_size)
        self.gather(sentences, processes)

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
            result[here] = self._take_of(shard, wanted[here] - self._starts[shard])
        return result

    def embeddings(self, sentences: Sequence[str]) -> Floats:
        """Embeddings of sentences, in their order: shape ``(N, D)``; missing ones are encoded first."""
        self.add(sentences)
        return self.take(self.rows(sentences))

    @abstractmethod
    def gather(self, sentences: Sequence[str], processes: Processes) -> None:
        """Take in what all these processes have added of some sentences, when all of them are done; all must call.

        Raises:
            UserError: If some of them are not to be found.
        """

    @abstractmethod
    def _keep(self, digests: Digests, embeddings: Floats) -> None:
        """Keep the embeddings of the texts with these digests."""

    @abstractmethod
    def _embeddings(self, shard: int) -> Floats:
        """Embeddings of the shard of this number: shape ``(n, D)``."""

    def _take_of(self, shard: int, rows: Rows) -> Floats:
        """Some rows of the shard of this number."""
        return self._embeddings(shard)[rows]

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
            rows = [start + np.arange(len(own)) for start, own in zip(self._starts, self._digests, strict=False)]
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
        encoded: list[Floats] = []
        for block in blocks:
            encoded.append(self.encoder.encode(block, on_batch=on_batch))
            texts += block
            if len(texts) >= self.shard_rows:
                yield texts, np.concatenate(encoded)
                texts, encoded = [], []
        if texts:
            yield texts, np.concatenate(encoded)


def _digest_all(sentences: Sequence[str]) -> Digests:
    """Digest of the UTF-8 bytes of each sentence: shape ``(N,)``."""
    digests = np.empty(len(sentences), dtype=DIGEST_TYPE)
    for i, sentence in enumerate(sentences):
        try:
            digests[i] = raw_digest(sentence.encode())
        except UnicodeEncodeError:
            raise UserError(f"sentence {sentence!r} holds a lone surrogate; allowed: valid Unicode text") from None
    return digests

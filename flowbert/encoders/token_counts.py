"""How often each token of a vocabulary occurs in some sentences: what frequency weights are made of."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from flowbert.io.container import read_container, write_container
from flowbert.io.digest import digest_json, digest_tensors

COUNTS_SUFFIX = ".counts"
FITTED_ON, OF_RUN = "corpus", "run"  # what may be counted, beside corpora by name
_FORMAT = "flowbert-counts-1"


@dataclass(frozen=True, eq=False)
class TokenCounts:
    """Sums of whole numbers over sentences: those of parts of a corpus add up exactly.

    Attributes:
        occurrences: Shape ``(V,)``, int64: how often each token occurs.
        documents: Shape ``(V,)``, int64: how many sentences have it.
        sentences: Number N of sentences, every occurrence of a sentence counted.
        name: What was counted, for tables.

    Example:
        >>> both = TokenCounts.of([[0, 3, 3]], 4) + TokenCounts.of([[1]], 4)
        >>> both.occurrences.tolist(), both.documents.tolist(), both.sentences
        ([1, 1, 0, 2], [1, 1, 0, 1], 2)
    """

    occurrences: Tensor
    documents: Tensor
    sentences: int
    name: str = ""

    @classmethod
    def of(cls, rows: Iterable[list[int]], size: int, name: str = "") -> Self:
        """Count the tokens of sentences.

        Args:
            rows: Token numbers of each sentence.
            size: Size V of the vocabulary.
            name: What is counted.
        """
        tokens = list(rows)
        return cls(_count(tokens, size), _count(map(set, tokens), size), len(tokens), name)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what :meth:`save` wrote.

        Raises:
            UserError: If the file is missing, damaged, or none of token counts.
        """
        metadata, tensors = read_container(path, _FORMAT, "token counts", "count again")
        return cls(tensors["occurrences"], tensors["documents"], **metadata)

    def save(self, path: str | Path) -> Path:
        """Write a file, at once or not at all. Returns the path."""
        return write_container(path, _FORMAT, self.tensors(), {"sentences": self.sentences, "name": self.name})

    def tensors(self) -> dict[str, Tensor]:
        """The counts by name."""
        return {"occurrences": self.occurrences, "documents": self.documents}

    def state(self) -> dict[str, Any]:
        """All attributes, for a checkpoint: ``TokenCounts(**state)`` is equal."""
        return {**self.tensors(), "sentences": self.sentences, "name": self.name}

    def __add__(self, other: "TokenCounts") -> "TokenCounts":
        return TokenCounts(
            self.occurrences + other.occurrences,
            self.documents + other.documents,
            self.sentences + other.sentences,
            self.name or other.name,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TokenCounts) and (self.digest, self.name) == (other.digest, other.name)

    def __hash__(self) -> int:
        return hash((self.digest, self.name))

    @cached_property
    def digest(self) -> str:
        """Identity of the counts, whatever they are called."""
        return digest_json({"counts": digest_tensors(self.tensors()), "sentences": self.sentences})

    def without(self, tokens: Sequence[int]) -> "TokenCounts":
        """The same, some tokens not counted."""
        rows = torch.tensor(tokens, dtype=torch.long)
        occurrences, documents = (counts.index_fill(0, rows, 0) for counts in self.tensors().values())
        return replace(self, occurrences=occurrences, documents=documents)


def _count(rows: Iterable[Iterable[int]], size: int) -> Tensor:
    return torch.from_numpy(np.bincount(np.fromiter(chain.from_iterable(rows), np.int64), minlength=size))


def frequencies(counts: TokenCounts) -> Tensor:
    """Share p(t) of each token in all occurrences: shape ``(V,)``, float64; 0 for a token that does not occur."""
    return counts.occurrences.double() / max(int(counts.occurrences.sum()), 1)


def counts_from(saved: Mapping[str, Any]) -> TokenCounts | None:
    """Counts that a checkpoint holds, if it does."""
    return TokenCounts(**saved["counts"]) if "counts" in saved else None

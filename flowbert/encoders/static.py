"""Static word vectors averaged: the encoder that needs no network, from any GloVe or word2vec text file."""

import math
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from flowbert.data.text import iterate_lines
from flowbert.errors import FlowbertWarning, UserError
from flowbert.io.digest import digest_bytes, digest_json
from flowbert.progress import tracked

_TOKEN = re.compile(r"\w+|[^\w\s]")
_RULES = "static-1"
_BATCH = 1024


def words_of(sentence: str) -> list[str]:
    r"""Words of a sentence in lower case: runs of letters, digits, underscores; every other sign is a word of its own.

    Example:
        >>> words_of("A dog's life.")
        ['a', 'dog', "'", 's', 'life', '.']
    """
    return _TOKEN.findall(sentence.lower())


def count_words(sentences: Iterable[str]) -> dict[str, int]:
    """How often each word occurs in a corpus, for the weights of :class:`StaticEncoder`."""
    read = tracked(sentences, "Counting words", "sentences")
    return dict(Counter(word for sentence in read for word in words_of(sentence)))


class StaticEncoder:
    r"""Weighted mean of word vectors :math:`\sum_w a / (a + p(w))\, v_w / n`, or the plain mean.

    A word that the file does not have is left out of the mean, and of n. A sentence without any known word gets the
    mean of all vectors, so that its cosine exists; :meth:`encode` warns and counts such sentences. The weights are
    those of SIF; the removal of the first direction that SIF adds is a calibration of its own (``nulling-1``).

    References:
        A Simple but Tough-to-Beat Baseline for Sentence Embeddings (Arora et al., 2017).
        https://openreview.net/forum?id=SyK00v5xx

        GloVe: Global Vectors for Word Representation (Pennington et al., 2014). https://aclanthology.org/D14-1162

    Args:
        words: V distinct words.
        vectors: Their vectors, shape ``(V, D)``.
        counts: Word -> occurrences in a corpus, for the SIF weights; a word that is not in it gets the weight 1. None
            gives the plain mean.
        sif_a: The constant a of the weights, above 0.
        digest: Identity of the vectors; computed from them if None.

    Raises:
        ValueError: If words and vectors do not fit together.
        UserError: If ``sif_a`` is not above 0, or ``counts`` are empty.

    Example:
        >>> encoder = StaticEncoder(["a", "dog"], np.array([[1.0, 0.0], [0.0, 1.0]]))
        >>> encoder.encode(["A dog barks"]).tolist()
        [[0.5, 0.5]]
    """

    def __init__(
        self,
        words: Sequence[str],
        vectors: NDArray[np.floating],
        *,
        counts: Mapping[str, int] | None = None,
        sif_a: float = 1e-3,
        digest: str | None = None,
    ) -> None:
        if vectors.ndim != 2 or len(vectors) != len(words) or vectors.size == 0:
            raise ValueError(f"{len(words)} words and vectors of the shape {vectors.shape}; allowed: (V, D), V, D >= 1")
        if not (math.isfinite(sif_a) and sif_a > 0):
            raise UserError(f"sif_a: received {sif_a}; allowed: a number above 0")
        if counts is not None and sum(counts.values()) < 1:
            raise UserError("counts: received no word; allowed: at least one occurrence")
        self.vectors = np.ascontiguousarray(vectors, dtype=np.float32)
        self.sif_a = sif_a
        self._rows = {word: row for row, word in enumerate(words)}
        if len(self._rows) != len(words):
            raise ValueError(f"{len(words) - len(self._rows)} of {len(words)} words come twice; allowed: each once")
        total = 1 if counts is None else sum(counts.values())
        self._weights = np.array([sif_a / (sif_a + (counts or {}).get(word, 0) / total) for word in words])
        self._counts = None if counts is None else digest_json(dict(counts))
        self._unknown = self.vectors.mean(axis=0, dtype=np.float64)
        self._digest = digest or digest_bytes(self.vectors.tobytes(), "\n".join(words).encode())

    @classmethod
    def from_file(cls, path: str | Path, *, max_words: int | None = None) -> Self:
        """Read a text file, plain or ``.gz``: a word and its D numbers a line, parted by single spaces.

        A first line of two whole numbers (words, D) is word2vec's header. A word may hold spaces, as a few of GloVe's
        do, as long as no part of it is a number. The first of two lines with the same word counts.

        Args:
            path: The file, UTF-8.
            max_words: Read only the first ones, in such files the most frequent; None reads all.

        Raises:
            UserError: If the file is missing, empty or not UTF-8, has a ragged row, a value that is not a finite
                number, or fewer rows than its header says; the message names file, line and what is allowed.
        """
        path = Path(path).expanduser()
        if max_words is not None and max_words < 1:
            raise UserError(f"max_words: received {max_words}; allowed: 1 or more, or none for all")
        return cls(*_read_vectors(path, max_words))

    def with_counts(self, counts: Mapping[str, int], sif_a: float = 1e-3) -> "StaticEncoder":
        """The same vectors with SIF weights of these counts."""
        return StaticEncoder(list(self._rows), self.vectors, counts=counts, sif_a=sif_a, digest=self._digest)

    @property
    def dim(self) -> int:
        """Embedding size D."""
        return int(self.vectors.shape[1])

    def __len__(self) -> int:
        return len(self.vectors)

    def key(self) -> dict[str, Any]:
        """Identity of the embeddings as JSON values: equal keys, equal embeddings."""
        weighting = {"weighting": "mean"} if self._counts is None else {"weighting": "sif", "a": self.sif_a}
        identity = {"kind": _RULES, "vectors": self._digest, "lowercase": True, "counts": self._counts}
        return identity | weighting

    def encode(self, sentences: Sequence[str], *, on_batch: Callable[[int], None] | None = None) -> NDArray[np.float32]:
        """Embed N sentences: shape ``(N, D)``, float32.

        Args:
            sentences: N sentences.
            on_batch: Called with the number of sentences of each batch.
        """
        embeddings = np.empty((len(sentences), self.dim), dtype=np.float32)
        unknown = 0
        for start in range(0, len(sentences), _BATCH):
            batch = sentences[start : start + _BATCH]
            for row, sentence in enumerate(batch, start=start):
                rows = [known for word in words_of(sentence) if (known := self._rows.get(word)) is not None]
                unknown += not rows
                embeddings[row] = self._mean(rows) if rows else self._unknown
            if on_batch is not None:
                on_batch(len(batch))
        if unknown:
            warnings.warn(
                f"{unknown} of {len(sentences)} sentences have no word among the {len(self)} with a vector; "
                "they get the mean of all vectors",
                FlowbertWarning,
                stacklevel=2,
            )
        return embeddings

    def _mean(self, rows: list[int]) -> NDArray[np.float64]:
        weighted: NDArray[np.float64] = self._weights[rows] @ self.vectors[rows].astype(np.float64)
        return weighted / len(rows)


def _read_vectors(path: Path, max_words: int | None) -> tuple[list[str], NDArray[np.float32]]:
    vectors: dict[str, NDArray[np.float32]] = {}
    promised: int | None = None
    dim: int | None = None
    rows = 0
    for number, line in enumerate(iterate_lines(path), start=1):
        fields = line.rstrip().split(" ")
        if number == 1 and len(fields) == 2 and all(field.isdigit() for field in fields):
            promised, dim = int(fields[0]), int(fields[1])
            continue
        if max_words is not None and rows == max_words:
            break
        dim = dim or _numbers_at_the_end(fields, f"{path}:{number}")
        word, vector = _parse(fields, dim, f"{path}:{number}")
        vectors.setdefault(word, vector)
        rows += 1
    needed = max(1, promised or 0) if max_words is None else min(promised or 1, max_words)
    if rows < needed:
        raise UserError(f"{path}: {rows} rows of word vectors; allowed: {needed} or more")
    return list(vectors), np.stack(list(vectors.values()))


def _numbers_at_the_end(fields: Sequence[str], where: str) -> int:
    """D from a file without a header: how many numbers the first row ends with."""
    dim = next((count for count, field in enumerate(reversed(fields)) if not _is_number(field)), len(fields) - 1)
    if dim < 1:
        raise UserError(f"{where}: {len(fields)} fields and no number at the end; allowed: a word and its numbers")
    return dim


def _parse(fields: list[str], dim: int, where: str) -> tuple[str, NDArray[np.float32]]:
    words = fields[:-dim]
    if not words or (len(words) > 1 and any(map(_is_number, words))):
        raise UserError(f"{where}: a word and {len(fields) - 1} numbers; allowed: a word and {dim} numbers")
    try:
        with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite and is refused below
            vector = np.array(fields[-dim:], dtype=np.float64).astype(np.float32)
    except ValueError as error:
        wrong = next(field for field in fields[-dim:] if not _is_number(field))
        raise UserError(f"{where}: {wrong!r} is not a number; allowed: a word and {dim} numbers") from error
    if not np.isfinite(vector).all():
        raise UserError(f"{where}: a value is NaN or infinite; allowed: {dim} finite numbers")
    return " ".join(words), vector


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True

"""Averaged static word vectors, an encoder without a network."""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self
from unicodedata import normalize

import numpy as np
import torch
from torch import Tensor

from flowbert.arrays import Floats
from flowbert.data.text_files import split_words, stream_lines, user_path
from flowbert.encoders.base import Embedder
from flowbert.encoders.pooling import inverse_frequency, make_pooling
from flowbert.errors import UserError, warn
from flowbert.io import digest, digest_tensors
from flowbert.numbers import (
    Count,
    check_limits,
    parse_numbers,
)


class WordVectors(Embedder):
    r"""Mean of word vectors, :math:`\frac{1}{n} \sum_w \frac{a}{a + p(w)} v_w`, or the plain mean.

    Words of file and text are compared in Unicode's composed form (NFC). If the file has words with
    capitals, a word is searched for as it is written, otherwise in lower case. Unknown words are
    ignored, in the sum and in n. A sentence without a known word gets the mean of all vectors, with
    a warning.

    References:
        A Simple but Tough-to-Beat Baseline for Sentence Embeddings (Arora et al., 2017).
        https://openreview.net/forum?id=SyK00v5xx

        GloVe: Global Vectors for Word Representation (Pennington et al., 2014).
        https://aclanthology.org/D14-1162

    Args:
        path: Text file, plain, ``.gz`` or ``.zst``: in each line a word and its D numbers, as
            GloVe, word2vec and fastText write them, or with a tab after the word. A first line of
            two whole numbers is word2vec's header. If a word is repeated, its first line is used.
        pooling: ``mean``, or ``sif[:a=0.001]``.
        count_over: Sentences whose words ``sif`` counts; other words have weight 1.
        token_weights: Saved :attr:`token_weights`, in place of counting.
        max_words: Number of words to read, the first ones of the file, which are the most frequent
            in such files.

    Raises:
        UserError: If the file is missing or damaged (with the row), or an option does not fit.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        pooling: str = "mean",
        count_over: Sequence[str] = (),
        token_weights: Tensor | None = None,
        max_words: Count | None = None,
    ) -> None:
        self.path = str(path)
        self.pooling = make_pooling(pooling)
        self.max_words = max_words
        if not re.fullmatch("mean|sif(:a=[^:]*)?", str(self.pooling)):
            raise UserError(
                argument="pooling",
                received=pooling,
                expected="mean or sif for word vectors",
            )
        check_limits(WordVectors, {"max_words": max_words})
        self.words, self.vectors = _read(user_path(path), max_words)
        self.dim = self.vectors.shape[1]
        self._has_capitals = any(word != word.lower() for word in self.words)
        if self.pooling.name == "mean":
            token_weights = None
        elif token_weights is None:
            token_weights = self._count(count_over)
        self.token_weights = token_weights

    def _split(self, sentence: str) -> list[str]:
        """Words of a sentence, in the spelling of the file if they are in it."""
        sentence = normalize("NFC", sentence)
        if not self._has_capitals:
            return split_words(sentence.lower())
        words: list[str] = []
        for word in split_words(sentence):
            words += [word] if word in self.words else split_words(word.lower())
        return words

    def _count(self, count_over: Sequence[str]) -> Tensor:
        counts = Counter(word for text in count_over for word in self._split(text))
        if not counts:
            raise UserError(
                f"received {str(self.pooling)!r} without sentences to count words over; "
                "expected a fitted model, count_over, or mean",
                argument="pooling",
            )
        a, total = self.pooling.options["a"], counts.total()
        weights = [inverse_frequency(counts[word] / total, a) for word in self.words]
        return torch.tensor(weights, dtype=torch.float64)

    def embed(self, sentences: Sequence[str], on_batch: Any = None) -> Floats:
        """Vectors of a list of N sentences: ``(N, D)``, float32."""
        weights = np.ones(len(self.words))
        if self.token_weights is not None:
            weights = self.token_weights.numpy()
        embeddings = np.empty((len(sentences), self.dim), dtype=np.float32)
        unknown = []
        for number, sentence in enumerate(sentences):
            pieces = self._split(sentence)
            rows = [self.words[word] for word in pieces if word in self.words]
            if rows:
                embeddings[number] = (
                    weights[rows] @ self.vectors[rows].astype(np.float64) / len(rows)
                )
            else:
                unknown.append(number)
        if unknown:
            embeddings[unknown] = self.vectors.mean(axis=0, dtype=np.float64)
            warn(
                f"{self.path}: {len(unknown)} of {len(sentences)} sentences have no word with a "
                "vector; they get the mean of all vectors"
            )
        return embeddings

    def to(self, *_: Any) -> Self:
        """Word vectors stay on the CPU."""
        return self

    def describe(self) -> dict[str, Any]:
        """Arguments that load this encoder again, except for its token weights."""
        return {
            "path": self.path,
            "pooling": str(self.pooling),
            "max_words": self.max_words,
        }

    def columns(self) -> dict[str, str]:
        """Columns of results: encoder, layers, pooling."""
        return {"encoder": self.path, "layers": "words", "pooling": str(self.pooling)}

    @property
    def identity(self) -> dict[str, Any]:
        """Digests and settings: equal identities give equal vectors."""
        tensors = {"vectors": torch.from_numpy(self.vectors)}
        if self.token_weights is not None:
            tensors["weights"] = self.token_weights
        return {
            "words": digest(self.words),
            "vectors": digest_tensors(tensors),
        }


def _read(path: Path, max_words: int | None) -> tuple[dict[str, int], Floats]:
    """Row of each word, and the vectors."""
    words: dict[str, int] = {}
    vectors: list[Floats] = []
    rows = dim = 0
    for rows, line in enumerate(stream_lines(path), start=1):
        header = line.split()
        if rows == 1 and len(header) == 2 and all(map(str.isdecimal, header)):
            dim = int(header[1])
            continue
        try:
            word, vector = _parse(line, dim)
        except ValueError as error:
            raise UserError(f"{path}: row {rows}: {error}") from error
        dim = len(vector)
        if word not in words:
            words[word] = len(vectors)
            vectors.append(vector)
        if len(vectors) == max_words:
            break
    if not vectors:
        raise UserError(f"{path}: received {rows} rows without word vectors")
    return words, np.stack(vectors)


def _parse(line: str, dim: int) -> tuple[str, Floats]:
    """A word and its vector of size ``dim``, or of all numbers of the line if ``dim`` is 0.

    The last space or tab before the numbers ends the word.

    Raises:
        ValueError: If the line has another number of values.
    """
    fields = line.rstrip().replace("\t", " ").split(" ")
    dim = dim or max(len(fields) - 1, 1)
    words, numbers = fields[:-dim], fields[-dim:]
    # A word may hold spaces, as a few of GloVe's do, but no part that is a number.
    if not words or any(re.match(r"-?\d", part) for part in words[1:]):
        raise ValueError(f"received {len(fields) - 1} numbers; expected {dim}")
    vector = np.array(parse_numbers(numbers), dtype=np.float32)
    return normalize("NFC", " ".join(words)), vector

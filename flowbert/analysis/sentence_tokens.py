"""How long sentences are, and how frequent their words: what norms of their vectors are laid beside."""

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from flowbert.encoders import SentenceEncoder
from flowbert.encoders.static import words_of
from flowbert.encoders.tokens import count_tokens, special_tokens, tokenize

COUNTED = 20_000
"""Sentences of a corpus that words are counted over, and that a Gaussian is fitted on, for a page."""
Pieces = Sequence[Sequence[Hashable]]


class SentenceTokens(NamedTuple):
    """Length and frequency of N sentences.

    Attributes:
        lengths: Words or tokens of each.
        frequencies: Mean over these of log10 of how often each occurs in a corpus.
        unit: What was counted: ``words`` or ``tokens``.
    """

    lengths: list[int]
    frequencies: list[float]
    unit: str


def sentence_tokens(rows: Pieces, counts: Mapping[Hashable, int], unit: str) -> SentenceTokens:
    """Length and mean log10 count of the words or tokens of each sentence.

    Args:
        rows: Its words or tokens; an empty row has the length 0 and the frequency 0.
        counts: How often each occurs in a corpus; what does not occur there counts as once.
        unit: ``words`` or ``tokens``.

    Example:
        >>> sentence_tokens([["a", "dog"], ["dog"]], {"a": 100, "dog": 10}, "words")
        SentenceTokens(lengths=[2, 1], frequencies=[1.5, 1.0], unit='words')
    """
    frequencies = [sum(math.log10(counts.get(each) or 1) for each in row) / max(len(row), 1) for row in rows]
    return SentenceTokens([len(row) for row in rows], frequencies, unit)


def words_in(sentences: Sequence[str], corpus: Iterable[str]) -> SentenceTokens:
    """The same in words, every sign being one, too, for vectors that have no tokenizer."""
    counts: Counter[Hashable] = Counter(chain.from_iterable(map(words_of, corpus)))
    return sentence_tokens([words_of(sentence) for sentence in sentences], counts, "words")


def tokens_in(encoder: SentenceEncoder, sentences: Sequence[str], corpus: Sequence[str]) -> SentenceTokens:
    """The same in tokens as the encoder cuts them, without special ones and without its prompt."""
    special = special_tokens(encoder.tokenizer)
    counts = count_tokens(encoder.tokenizer, corpus, encoder.max_length).occurrences.tolist()
    rows = [
        [token for token in row["input_ids"] if token not in special]
        for row in tokenize(encoder.tokenizer, sentences, encoder.max_length, ["input_ids"])
    ]
    return sentence_tokens(rows, dict(enumerate(counts)), "tokens")

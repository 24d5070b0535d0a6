"""Length of sentences and frequency of their words or tokens."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from flowbert.data.split import split_words

if TYPE_CHECKING:  # transformers takes seconds to import
    from flowbert.encoders import SentenceEncoder

_TOKENIZED = 10_000  # sentences tokenized at once


def words_of(sentence: str) -> list[str]:
    """Words of a sentence in lower case; a punctuation mark is a word.

    Example:
        >>> words_of("A dog's life.")
        ['a', 'dog', "'", 's', 'life', '.']
    """
    return split_words(sentence.lower())


def tokens_of(
    encoder: "SentenceEncoder", sentences: Sequence[str]
) -> Iterator[list[int]]:
    """Token ids of sentences, truncated for the encoder; special tokens are left out."""
    tokenizer = encoder.backbone.tokenizer
    length = encoder.max_length - tokenizer.num_special_tokens_to_add()
    for start in range(0, len(sentences), _TOKENIZED):
        block = list(sentences[start : start + _TOKENIZED])
        yield from tokenizer(
            block, add_special_tokens=False, truncation=True, max_length=length
        )["input_ids"]


def sentence_lengths(
    sentences: Iterable[Sequence[Any]], counts: Mapping[Any, int], unit: str
) -> pd.DataFrame:
    """Length of sentences, and mean log10 frequency of their words or tokens.

    Args:
        sentences: N sentences, as words or as tokens.
        counts: Occurrences of each word or token in a corpus; a missing one counts as 1.
        unit: ``words`` or ``tokens``.

    Returns:
        Columns ``length``, ``frequency``, ``unit``, N rows; an empty sentence has 0 and 0.

    Example:
        >>> counts = {"a": 100, "dog": 10}
        >>> sentence_lengths([["a", "dog"], ["dog"]], counts, "words")["frequency"].tolist()
        [1.5, 1.0]
    """
    records = []
    for pieces in sentences:
        logs = [math.log10(counts.get(piece, 1)) for piece in pieces]
        records.append((len(logs), sum(logs) / max(len(logs), 1), unit))
    return pd.DataFrame(records, columns=["length", "frequency", "unit"])

"""Sentences with their vectors under every method, the input of measures."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

import pandas as pd
from torch import Tensor

from flowbert.arrays import Floats
from flowbert.data.text_files import split_words

if TYPE_CHECKING:  # imported when it is used
    from flowbert.encoders import SentenceEncoder
    from flowbert.flows import Glow


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


RAW = "raw"
"""Method of the embeddings as they are."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Sentences with their vectors under every method, and further inputs of measures.

    A measure whose input is missing is left out.

    Attributes:
        sentences: N distinct sentences in random order, since the first ones are drawn; N above 10.
        vectors: Their vectors by method, float64, ``(N, D)``, D at least 2.
        pairs: Gold scores ``(P,)`` and cosines by method, ``(P,)``, for each task.
        encoder: The transformer that the vectors are of, whose tokens are measured.
        corpus: Sentences whose words or tokens are counted; empty for :attr:`sentences`.
        flows: Fitted flows by method, whose densities are measured.
        fitting: Vectors that the flows were fitted on, ``(F, D)``.
        held_out: Other vectors, ``(H, D)``.
        tokens: Number of tokens to draw in sentences.
        seed: Seed of what is drawn.
    """

    sentences: Sequence[str] = ()
    vectors: Mapping[str, Tensor] = field(default_factory=dict)
    pairs: Mapping[str, tuple[Floats, Mapping[str, Floats]]] = field(
        default_factory=dict
    )
    encoder: "SentenceEncoder | None" = None
    corpus: Sequence[str] = ()
    flows: "Mapping[str, Glow]" = field(default_factory=dict)
    fitting: Tensor | None = None
    held_out: Tensor | None = None
    tokens: int = 2000
    seed: int = 0

    def _pieces(self, texts: Sequence[str]) -> Iterable[Sequence[Any]]:
        """Each text as tokens of the transformer, or else as words."""
        return (
            map(words_of, texts)
            if self.encoder is None
            else tokens_of(self.encoder, texts)
        )

    @cached_property
    def counts(self) -> Counter[Any]:
        """Occurrences of each token or word in the corpus."""
        return Counter(chain.from_iterable(self._pieces(self.corpus or self.sentences)))

    @cached_property
    def lengths(self) -> pd.DataFrame:
        """Columns length and unit of each sentence: in tokens, or else in words."""
        lengths = [len(pieces) for pieces in self._pieces(self.sentences)]
        unit = "words" if self.encoder is None else "tokens"
        return pd.DataFrame({"length": lengths, "unit": unit})

    @property
    def input_embeddings(self) -> Tensor | None:
        """Input embeddings of the corpus's tokens, the most frequent first, ``(W, D)``.

        Equally frequent ones are in the order of their ids; None without a transformer.
        """
        if self.encoder is None:
            return None
        counts = self.counts
        ranked = sorted(counts, key=lambda token: (-counts[token], token))
        network: Any = self.encoder.backbone.network
        embeddings: Tensor = network.get_input_embeddings().weight.detach()
        return embeddings[ranked]

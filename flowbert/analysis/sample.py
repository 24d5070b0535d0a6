"""Sentences with their vectors under every method, the input of measures."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

import pandas as pd
from torch import Tensor

from flowbert.analysis.lengths import sentence_lengths, tokens_of, word_lengths
from flowbert.arrays import Floats

if TYPE_CHECKING:  # transformers takes seconds to import
    from flowbert.encoders import SentenceEncoder
    from flowbert.flows import Glow

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
        projection: Map in two dimensions: ``pca`` or ``umap``.
        tokens: Number of tokens to draw in sentences.
        seed: Seed of what is drawn, and of UMAP.

    Raises:
        ValueError: If the numbers of sentences and vectors differ.
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
    projection: str = "pca"
    tokens: int = 2000
    seed: int = 0

    def __post_init__(self) -> None:
        for method, rows in self.vectors.items():
            if len(rows) != len(self.sentences):
                raise ValueError(
                    f"{method}: received {len(rows)} vectors; expected {len(self.sentences)}"
                )

    @property
    def latents(self) -> dict[str, Tensor]:
        """The vectors of all methods but ``raw``: those that may be standard normal."""
        return {name: rows for name, rows in self.vectors.items() if name != RAW}

    @cached_property
    def lengths(self) -> pd.DataFrame:
        """Columns length, frequency and unit of each sentence: in tokens, or else in words."""
        if self.encoder is None:
            return word_lengths(self.sentences, self.corpus or self.sentences)
        tokens = tokens_of(self.encoder, self.sentences)
        return sentence_lengths(tokens, self.token_counts, "tokens")

    @cached_property
    def token_counts(self) -> Counter[int]:
        """Occurrences of each token in the corpus; none without a transformer."""
        if self.encoder is None:
            return Counter()
        texts = self.corpus or self.sentences
        return Counter(chain.from_iterable(tokens_of(self.encoder, texts)))

    @property
    def input_embeddings(self) -> Tensor | None:
        """Input embeddings of the corpus's tokens, the most frequent first, ``(W, D)``.

        Equally frequent ones are in the order of their ids; None without a transformer.
        """
        if self.encoder is None:
            return None
        counts = self.token_counts
        ranked = sorted(counts, key=lambda token: (-counts[token], token))
        network: Any = self.encoder.backbone.network
        embeddings: Tensor = network.get_input_embeddings().weight.detach()
        return embeddings[ranked]

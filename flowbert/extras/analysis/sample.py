"""The sample that measures measure: sentences with their vectors under every method."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

import pandas as pd
from torch import Tensor

from flowbert.arrays import Floats

if TYPE_CHECKING:  # imported when it is used
    from flowbert.encoders import SentenceEncoder
    from flowbert.flows import Glow

RAW = "raw"
"""Method of the embeddings as they are."""

_TOKENIZED = 10_000  # sentences tokenized at once


def tokens_of(
    encoder: "SentenceEncoder", sentences: Sequence[str]
) -> Iterator[list[int]]:
    """Token ids of sentences, truncated for the encoder; special tokens are left out."""
    tokenizer = encoder.backbone.tokenizer
    length = encoder.max_length - tokenizer.num_special_tokens_to_add()
    for start in range(0, len(sentences), _TOKENIZED):
        block = list(sentences[start : start + _TOKENIZED])
        rows = tokenizer(block, add_special_tokens=False, verbose=False)["input_ids"]
        yield from (row[:length] for row in rows)


@dataclass(frozen=True, eq=False)
class Sample:
    """Sentences with their vectors under every method, and further inputs of measures.

    Attributes:
        sentences: N distinct sentences in random order, since the first ones are drawn; N above 10.
        vectors: Their vectors by method, float64, ``(N, D)``, D at least 2.
        pairs: Gold scores ``(P,)`` and cosines by method, ``(P,)``, for each task.
        encoder: The transformer that the vectors are of, whose tokens are measured.
        corpus: Sentences whose tokens are counted; empty for :attr:`sentences`.
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

    @cached_property
    def input_embeddings(self) -> Tensor | None:
        """Input embeddings of the corpus's tokens, the most frequent first, ``(W, D)``.

        Equally frequent ones are in the order of their ids; None without a transformer.
        """
        if self.encoder is None:
            return None
        tokens = tokens_of(self.encoder, self.corpus or self.sentences)
        counts = Counter(chain.from_iterable(tokens))
        ranked = sorted(counts, key=lambda token: (-counts[token], token))
        network: Any = self.encoder.backbone.network
        embeddings: Tensor = network.get_input_embeddings().weight.detach()
        return embeddings[ranked]

    def by_method(self, measure: Callable[[Tensor], Any]) -> pd.DataFrame:
        """Measure the vectors of each method; the first column of the frame is ``method``.

        Args:
            measure: From vectors ``(N, D)`` to a frame, or to columns of equal length by name.

        Example:
            >>> import torch
            >>> sample = Sample("abcde", {"raw": torch.zeros(5, 2)})
            >>> sample.by_method(lambda x: {"rows": [len(x)]})
              method  rows
            0    raw     5
        """
        parts = {method: pd.DataFrame(measure(x)) for method, x in self.vectors.items()}
        return stack(parts, ["method"])


def stack(parts: Mapping[Any, pd.DataFrame], names: list[str]) -> pd.DataFrame:
    """Frames below each other, their keys as the first columns.

    Args:
        parts: Frames by key; a tuple is of several columns.
        names: Columns of the keys.
    """
    if not parts:
        return pd.DataFrame()
    return pd.concat(parts, names=names).reset_index(names).reset_index(drop=True)

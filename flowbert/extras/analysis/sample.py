"""The input of measures: sentences with their vectors under every method."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pandas as pd
from torch import Tensor

from flowbert.arrays import Floats
from flowbert.encoders.pooling import special_tokens

if TYPE_CHECKING:  # imported when it is used
    from flowbert.encoders import SentenceEncoder
    from flowbert.flows import Glow

RAW = "raw"
"""Method of the embeddings without a map."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Sentences with their vectors under every method, and other inputs of measures.

    Attributes:
        sentences: N distinct sentences in random order, of which plots show the first; N above 10.
        vectors: Vectors of the sentences by method, float64, ``(N, D)``, D at least 2.
        pairs: Gold scores ``(P,)`` and cosines by method, ``(P,)``, for each task.
        encoder: The transformer of the vectors, whose tokens are measured.
        corpus: Sentences whose tokens are counted; empty for :attr:`sentences`.
        flows: Fitted flows by method, whose densities are measured.
        fitting: Vectors that the flows were fitted on, ``(F, D)``.
        held_out: Other vectors, ``(H, D)``.
        tokens: Number of tokens to draw from sentences.
        seed: Seed of all random draws.
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

        Ties are sorted by id, special tokens are left out; None without a transformer.
        """
        if self.encoder is None:
            return None
        encoder = self.encoder.read(template="", sink_token="")
        counts: Counter[int] = Counter()
        for row in encoder.tokenization.rows(self.corpus or self.sentences):
            counts.update(row["input_ids"])
        tokens = counts.keys() - special_tokens(encoder.backbone.tokenizer)
        ranked = sorted(tokens, key=lambda token: (-counts[token], token))
        network: Any = encoder.backbone.network
        embeddings: Tensor = network.get_input_embeddings().weight.detach()
        return embeddings[ranked]

    def by_method(self, measure: Callable[[Tensor], Any]) -> pd.DataFrame:
        """Measure the vectors of each method; the first column of the frame is ``method``.

        Args:
            measure: Function from vectors ``(N, D)`` to a frame, or to columns by name.

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
    """Concatenate frames, with their keys as the first columns.

    Args:
        parts: Frames by key; a tuple fills several columns.
        names: Names of the columns of the keys.
    """
    if not parts:
        return pd.DataFrame()
    return pd.concat(parts, names=names).reset_index(names).reset_index(drop=True)

"""Norms of sentence vectors against the length of the sentences and the frequency of their words."""

from typing import NamedTuple

import numpy as np

from flowbert.analysis.sentence_tokens import SentenceTokens
from flowbert.metrics.arrays import Array, to_rows
from flowbert.metrics.spearman import spearman_or_nan


class Norms(NamedTuple):
    """Norms of N vectors.

    Attributes:
        mean: Mean Euclidean norm.
        with_length: Spearman of norm and length, -1 to 1; NaN if it does not exist.
        with_frequency: Spearman of norm and mean log frequency of the words.
    """

    mean: float
    with_length: float
    with_frequency: float


def norms(x: Array, tokens: SentenceTokens) -> Norms:
    """Lay the norms of vectors ``(N, D)`` beside length and word frequency of their sentences.

    References:
        On the Sentence Embeddings from Pre-trained Language Models (Li et al., 2020), section 3.2: frequent words lie
        nearer to the origin, which biases the space. https://arxiv.org/abs/2011.05864
        The rank correlation over sentences is ours.

    Raises:
        ValueError: If ``x`` is not 2-D, or has another number of rows than there are sentences.

    Example:
        >>> import torch
        >>> tokens = SentenceTokens([1, 2, 3], [2.0, 1.0, 0.0], "words")
        >>> found = norms(torch.tensor([[3.0, 4.0], [6.0, 8.0], [0.0, 15.0]]), tokens)
        >>> found.mean, round(found.with_length, 6), round(found.with_frequency, 6)
        (10.0, 1.0, -1.0)
    """
    found = to_rows(x).norm(dim=1).cpu()
    if len(found) != len(tokens.lengths):
        raise ValueError(f"embeddings have {len(found)} rows; allowed: {len(tokens.lengths)}, one for each sentence")
    by_length, by_frequency = (
        spearman_or_nan(found, np.array(values, dtype=float)) for values in (tokens.lengths, tokens.frequencies)
    )
    return Norms(float(found.mean()), by_length, by_frequency)

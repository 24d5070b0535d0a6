"""What an analysis found."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor

from flowbert.analysis.gaussianity import Gaussianity
from flowbert.analysis.sentence_space import SentenceSpace
from flowbert.analysis.word_space import WordBucket


class WordSpace(NamedTuple):
    """Token vectors of an encoder.

    Attributes:
        buckets: Input embeddings by frequency.
        mean_cosine: Mean cosine of the input embeddings of tokens that occur.
        projection: Of these on their first two singular directions, the most frequent first, ``(W, 2)``.
        by_layer: Mean cosine of token vectors in their sentences, for each hidden state.
    """

    buckets: list[WordBucket]
    mean_cosine: float
    projection: Tensor
    by_layer: list[float]


@dataclass(frozen=True)
class Analysis:
    """Everything measured.

    Attributes:
        setting: Encoder, layers, pooling and corpus, as in a row of results.
        fitted: Number of distinct sentences that the maps were fitted on.
        measured: Number of those that everything else is of.
        spaces: Method -> measures of its vectors.
        spectra: Method -> eigenvalues of their covariance, largest first.
        latents: Method -> how Gaussian they are; not of raw embeddings.
        bits: Density -> bits per dimension of the measured sentences; empty without a flow.
        words: Token vectors; None for word vectors.
        neighbours: Sentence -> method -> its nearest ones.
    """

    setting: Mapping[str, Any]
    fitted: int
    measured: int
    spaces: Mapping[str, SentenceSpace]
    spectra: Mapping[str, list[float]]
    latents: Mapping[str, Gaussianity]
    bits: Mapping[str, float]
    words: WordSpace | None
    neighbours: Mapping[str, Mapping[str, list[str]]]

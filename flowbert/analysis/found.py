"""What an analysis found."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

from flowbert.analysis.gaussianity import Gaussianity, LatentShape
from flowbert.analysis.gold_bands import GoldBand
from flowbert.analysis.norms import Norms
from flowbert.analysis.plain import from_plain, to_plain
from flowbert.analysis.sentence_space import SentenceSpace
from flowbert.analysis.word_space import WordBucket, WordPoint


class WordSpace(NamedTuple):
    """Token vectors of an encoder.

    Attributes:
        buckets: Input embeddings by frequency.
        mean_cosine: Mean cosine of the input embeddings of tokens that occur.
        points: Some of these on their first two singular directions, the most frequent first.
        by_layer: Mean cosine of token vectors in their sentences, for each hidden state.
    """

    buckets: list[WordBucket]
    mean_cosine: float
    points: list[WordPoint]
    by_layer: list[float]


class Neighbour(NamedTuple):
    """A sentence near another.

    Attributes:
        text: The sentence.
        moved: Whether it is not among as many nearest ones under ``raw``; False where ``raw`` was not measured.
    """

    text: str
    moved: bool


class SentencePoints(NamedTuple):
    """Some of the measured sentences, n of them, to draw.

    Attributes:
        sentences: Their texts.
        lengths: Their lengths.
        frequencies: Mean log10 count of their words or tokens in the corpus.
        unit: What these are: ``words`` or ``tokens``.
        norms: Method -> norms of their vectors.
        kind: Of the map: ``pca`` or ``umap``.
        maps: Method -> coordinates of each, two numbers, on the map of all measured sentences.
    """

    sentences: list[str]
    lengths: list[int]
    frequencies: list[float]
    unit: str
    norms: dict[str, list[float]]
    kind: str
    maps: dict[str, list[list[float]]]


@dataclass(frozen=True)
class Analysis:
    """Everything measured; what was not is empty or None.

    Attributes:
        setting: Encoder, layers, pooling and corpus, as in a row of results.
        fitted: Number of distinct sentences that the maps were fitted on.
        measured: Number of those that the figures of sentences are of.
        spaces: Method -> measures of its vectors.
        spectra: Method -> eigenvalues of their covariance, largest first.
        latents: Method -> how Gaussian they are; not of raw embeddings.
        bits: Density -> bits per dimension of the measured sentences; empty without a flow.
        words: Token vectors; None for word vectors.
        neighbours: Sentence -> method -> its nearest ones.
        shapes: Method -> norms and moments by dimension, to draw; not of raw embeddings.
        norms: Method -> norms against length and word frequency.
        points: Sentences to draw.
        bands: Task and split -> method -> cosines by gold score.
    """

    setting: Mapping[str, Any]
    fitted: int
    measured: int
    spaces: Mapping[str, SentenceSpace] = field(default_factory=dict)
    spectra: Mapping[str, list[float]] = field(default_factory=dict)
    latents: Mapping[str, Gaussianity] = field(default_factory=dict)
    bits: Mapping[str, float] = field(default_factory=dict)
    words: WordSpace | None = None
    neighbours: Mapping[str, Mapping[str, list[Neighbour]]] = field(default_factory=dict)
    shapes: Mapping[str, LatentShape] = field(default_factory=dict)
    norms: Mapping[str, Norms] = field(default_factory=dict)
    points: SentencePoints | None = None
    bands: Mapping[str, Mapping[str, list[GoldBand]]] = field(default_factory=dict)

    def without_sentences(self) -> Self:
        """The same of vectors that have row numbers in place of sentences: nothing to read or to count."""
        return replace(self, neighbours={}, norms={}, points=None)

    def as_json(self) -> dict[str, Any]:
        """The same as JSON values; a number that is not finite is None."""
        return {name: to_plain(value) for name, value in vars(self).items()}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """The analysis that :meth:`as_json` wrote.

        Raises:
            ValueError: If the content has another form.

        Example:
            >>> found = Analysis({"encoder": "bert"}, 0, 10, spectra={"raw": [2.0, 1.0]})
            >>> Analysis.from_json(found.as_json()) == found
            True
        """
        try:
            analysis: Self = from_plain(cls, content)
        except (AttributeError, TypeError, ValueError) as error:
            raise ValueError(f"no analysis: {error}") from error
        return analysis

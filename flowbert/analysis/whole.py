"""A whole analysis of vectors that are there: no encoder is run and nothing is fitted."""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from flowbert.analysis.corpus_map import check_map, corpus_map
from flowbert.analysis.found import Analysis, Neighbour, SentencePoints, WordSpace
from flowbert.analysis.gaussianity import gaussianity, latent_shape
from flowbert.analysis.gold_bands import ScoredPairs, bands_of
from flowbert.analysis.norms import norms
from flowbert.analysis.plain import to_plain
from flowbert.analysis.sentence_space import sentence_space
from flowbert.analysis.sentence_tokens import SentenceTokens, words_in
from flowbert.metrics.neighbours import nearest_neighbours
from flowbert.metrics.spectrum import spectrum

RAW = "raw"
DRAWN = 400  # sentences
_SHOWN = 5  # sentences to read, and neighbours of each


def analysis_of(
    sentences: Sequence[str],
    vectors: Mapping[str, Tensor],
    *,
    setting: Mapping[str, Any],
    fitted: int,
    tokens: SentenceTokens | None = None,
    words: WordSpace | None = None,
    bits: Mapping[str, float] | None = None,
    pairs: Mapping[str, ScoredPairs] | None = None,
    kind: str = "pca",
    seed: int = 0,
) -> Analysis:
    """Measure and keep what is to be drawn. The first sentences are read and drawn, so they stand in random order.

    Args:
        sentences: N distinct sentences that no map was fitted on, N above 10.
        vectors: Method -> their vectors, ``(N, D)``; ``raw`` are embeddings as they are, the others latents.
        setting: Encoder, layers, pooling and corpus, as in a row of results.
        fitted: Number of distinct sentences that the maps were fitted on.
        tokens: Lengths and word frequencies; default: in words, counted over the sentences themselves.
        words: Token vectors, see :func:`flowbert.analysis.token_space.word_space`.
        bits: Density -> bits per dimension, see :func:`flowbert.analysis.density_bits`.
        pairs: Task and split -> gold scores and cosines; methods need not be those of ``vectors``.
        kind: Of the map: ``pca`` or ``umap``.
        seed: Seed of UMAP.

    Raises:
        UserError: If the map is unknown, or what it needs is not installed.
        ValueError: If there is not one row and one length for each sentence.

    Example:
        >>> import torch
        >>> x = torch.randn(60, 4, generator=torch.Generator().manual_seed(0))
        >>> texts = [f"sentence {number}" for number in range(60)]
        >>> found = analysis_of(texts, {"raw": x}, setting={"encoder": "mine"}, fitted=0)
        >>> found.measured, len(found.spectra["raw"]), len(found.neighbours)
        (60, 4, 5)
    """
    check_map(kind)
    for name, rows in vectors.items():
        if len(rows) != len(sentences):
            raise ValueError(f"vectors of {name} have {len(rows)} rows; allowed: {len(sentences)}")
    lengths = words_in(sentences, sentences) if tokens is None else tokens
    latents = {name: rows for name, rows in vectors.items() if name != RAW}
    plain: Mapping[str, Any] = to_plain(setting)
    return Analysis(
        setting=plain,
        fitted=fitted,
        measured=len(sentences),
        spaces={name: sentence_space(rows) for name, rows in vectors.items()},
        spectra={name: spectrum(rows).tolist() for name, rows in vectors.items()},
        latents={name: gaussianity(rows) for name, rows in latents.items()},
        bits=bits or {},
        words=words,
        neighbours=neighbours(sentences, vectors),
        shapes={name: latent_shape(rows) for name, rows in latents.items()},
        norms={name: norms(rows, lengths) for name, rows in vectors.items()},
        points=_points(sentences, vectors, lengths, kind, seed),
        bands=bands_of(pairs or {}),
    )


def neighbours(sentences: Sequence[str], vectors: Mapping[str, Tensor]) -> dict[str, dict[str, list[Neighbour]]]:
    """The nearest of the first sentences by cosine, under every method."""
    near = {name: nearest_neighbours(rows, _SHOWN)[:_SHOWN].tolist() for name, rows in vectors.items()}
    return {
        sentences[i]: {
            name: [Neighbour(sentences[j], RAW in near and j not in near[RAW][i]) for j in found[i]]
            for name, found in near.items()
        }
        for i in range(min(_SHOWN, len(sentences)))
    }


def _points(
    sentences: Sequence[str], vectors: Mapping[str, Tensor], tokens: SentenceTokens, kind: str, seed: int
) -> SentencePoints:
    drawn = slice(DRAWN)
    return SentencePoints(
        list(sentences[drawn]),
        tokens.lengths[drawn],
        tokens.frequencies[drawn],
        tokens.unit,
        {name: rows[drawn].double().norm(dim=1).tolist() for name, rows in vectors.items()},
        kind,
        {name: corpus_map(rows, kind, seed)[drawn].tolist() for name, rows in vectors.items()},
    )

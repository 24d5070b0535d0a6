"""The analysis of vectors: nothing is encoded or fitted."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from torch import Tensor

from flowbert.analysis.bands import gold_bands
from flowbert.analysis.density import dimension_moments, gaussianity, norm_histogram
from flowbert.analysis.frames import Analysis
from flowbert.analysis.lengths import norm_correlations, word_lengths
from flowbert.analysis.neighbours import RAW, sentence_neighbours
from flowbert.analysis.spaces import corpus_map, space_measures, spectrum
from flowbert.arrays import Floats
from flowbert.tasks.measures import to_rows

DRAWN_SENTENCES = 400
DRAWN_DIMENSIONS = 256


def analyze_vectors(
    sentences: Sequence[str],
    vectors: Mapping[str, Tensor],
    *,
    setting: Mapping[str, Any],
    lengths: pd.DataFrame | None = None,
    bits: Mapping[str, float] | None = None,
    pairs: Mapping[str, tuple[Floats, Mapping[str, Floats]]] | None = None,
    kind: str = "pca",
    seed: int = 0,
    **words: pd.DataFrame,
) -> Analysis:
    """Measure the vectors of sentences under every method.

    Args:
        sentences: N distinct sentences in random order, since the first ones are drawn; N above 10.
        vectors: Their vectors by method, ``(N, D)``, D at least 2; all but ``raw`` are compared
            with a standard normal.
        setting: What the vectors are of, see :class:`Analysis`.
        lengths: Lengths and frequencies, from :func:`sentence_lengths`; by default in words,
            counted in the sentences.
        bits: Bits per dimension by density, from :func:`density_bits`.
        pairs: Gold scores ``(P,)`` and cosines by method, ``(P,)``, for each task.
        kind: Kind of the map: ``pca`` or ``umap``.
        seed: Seed of UMAP.
        **words: Word space of the encoder, from :func:`token_frames`.

    Raises:
        UserError: If the map is unknown, or its package is not installed.
        ValueError: If the numbers of sentences and vectors differ.

    Example:
        >>> import torch
        >>> x = torch.randn(60, 4, generator=torch.Generator().manual_seed(0))
        >>> texts = [f"sentence {number}" for number in range(60)]
        >>> analysis = analyze_vectors(texts, {"raw": x}, setting={"encoder": "bert"})
        >>> len(analysis.spectra), len(analysis.neighbours)
        (4, 25)
    """
    for method, rows in vectors.items():
        if len(rows) != len(sentences):
            raise ValueError(
                f"{method}: received {len(rows)} vectors; expected {len(sentences)}"
            )
    if lengths is None:
        lengths = word_lengths(sentences, sentences)
    parts: dict[str, list[pd.DataFrame]] = defaultdict(list)
    for method, rows in vectors.items():
        frames = _space_frames(to_rows(rows), sentences, lengths, kind, seed)
        if method != RAW:
            frames |= _latent_frames(rows)
        for name, frame in frames.items():
            parts[name].append(frame.assign(method=method))
    for task, (gold, cosines) in (pairs or {}).items():
        for method, values in cosines.items():
            for name, frame in gold_bands(gold, values).items():
                parts[name].append(frame.assign(task=task, method=method))
    frames = {name: pd.concat(each, ignore_index=True) for name, each in parts.items()}
    if bits:
        frames["bits"] = pd.DataFrame(bits.items(), columns=["density", "bits"])
    return Analysis(
        {**setting, "sentences": len(sentences), "map": kind},
        neighbours=sentence_neighbours(sentences, vectors),
        **frames,
        **words,
    )


def _space_frames(
    rows: Tensor, sentences: Sequence[str], lengths: pd.DataFrame, kind: str, seed: int
) -> dict[str, pd.DataFrame]:
    values = spectrum(rows).cpu().numpy()
    directions = range(1, len(values) + 1)
    share = values / values.sum()
    drawn = lengths.head(DRAWN_SENTENCES).assign(sentence=sentences[:DRAWN_SENTENCES])
    places = corpus_map(rows, kind, seed)[: len(drawn)]
    norms = rows[: len(drawn)].norm(dim=1).cpu().numpy()
    return {
        "measures": pd.DataFrame([space_measures(rows)]),
        "spectra": pd.DataFrame(
            {"direction": directions, "eigenvalue": values, "share": share}
        ),
        "norms": pd.DataFrame([norm_correlations(rows, lengths)]),
        "sentences": drawn.assign(norm=norms, x=places[:, 0], y=places[:, 1]),
    }


def _latent_frames(rows: Tensor) -> dict[str, pd.DataFrame]:
    moments = dimension_moments(rows)
    step = math.ceil(len(moments) / DRAWN_DIMENSIONS) or 1
    return {
        "latents": pd.DataFrame([gaussianity(rows)]),
        "latent_norms": norm_histogram(rows),
        "latent_moments": moments[::step],
    }

"""Isotropy of vectors: spectrum, measures of it, cosines of pairs, principal components."""

from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from flowbert.arrays import Floats
from flowbert.data.text_files import split_words
from flowbert.extras.analysis.drawing import (
    ORDINAL,
    draw_facets,
    method_colour,
    new_axes,
    scatter,
    short,
)
from flowbert.extras.analysis.neighbours import hubness
from flowbert.extras.analysis.sample import Sample
from flowbert.tasks.measures import (
    Array,
    effective_rank,
    isoscore,
    mean_cosine,
    participation_ratio,
    partition_isotropy,
    spectrum,
    to_rows,
    uniformity,
    unit_rows,
)

DRAWN_SENTENCES = 400
PAIRED_SENTENCES = 3000
PERCENTILES = (50.0, 95.0, 99.0, 99.9)


def spectra(sample: Sample) -> pd.DataFrame:
    """A row per method and direction, from 1, in decreasing order of the variance.

    ``eigenvalue`` belongs to the covariance; ``share`` is its share of the sum.
    """

    def measure(x: Array) -> dict[str, Any]:
        values = spectrum(x).cpu().numpy()
        directions = range(1, len(values) + 1)
        shares = values / values.sum()
        return {"direction": directions, "eigenvalue": values, "share": shares}

    return sample.by_method(measure)


def draw_spectra(frame: pd.DataFrame) -> Figure:
    """Share of the variance by direction on a logarithmic axis, a line per method."""
    figure, ax = new_axes()
    frame = frame[frame["share"] > 1e-12]  # less is rounding
    for method, rows in frame.groupby("method", sort=False):
        look: Any = {"label": short(method), "color": method_colour(method)}
        ax.plot(rows["direction"], rows["share"], **look)
    ax.set(xlabel="direction", ylabel="share of the variance", yscale="log")
    ax.yaxis.set_major_formatter("{x:g}")  # the default writes formulas
    ax.minorticks_off()
    return figure


def space_measures(x: Array) -> dict[str, float]:
    """All measures of vectors ``(N, D)`` of distinct sentences, by name; N above 10, D at least 2.

    ``effective_rank`` and ``participation_ratio`` are between 1 and D, ``isoscore`` and
    ``partition_isotropy`` between 0 and 1, ``mean_cosine`` between -1 and 1. A lower ``uniformity``
    is more uniform; ``hubness`` is 0 without hubs.

    Example:
        >>> import torch
        >>> x = torch.randn(300, 4, generator=torch.Generator().manual_seed(0))
        >>> space_measures(x)["mean_cosine"] < 0.1 < space_measures(x + 5)["mean_cosine"]
        True
    """
    rows = to_rows(x)
    eigenvalues = spectrum(rows)
    return {
        "effective_rank": effective_rank(eigenvalues),
        "participation_ratio": participation_ratio(eigenvalues),
        "isoscore": isoscore(eigenvalues),
        "partition_isotropy": partition_isotropy(rows),
        "mean_cosine": mean_cosine(rows),
        "uniformity": uniformity(rows),
        "hubness": hubness(rows),
    }


def isotropy(sample: Sample) -> pd.DataFrame:
    """A row per method, see :func:`space_measures`."""
    return sample.by_method(lambda x: [space_measures(x)])


def random_pairs(sample: Sample) -> pd.DataFrame:
    """A row per method: percentiles of the cosines of all pairs of at most 3,000 vectors.

    ``p50``, ``p95``, ``p99`` and ``p99.9`` are the cosines at these percentiles; ``effective_dim``
    is one over the mean square of the cosines: D for uniform directions, 1 for equal ones.
    """

    def measure(x: Tensor) -> dict[str, Any]:
        unit = unit_rows(x[:PAIRED_SENTENCES])
        first, second = torch.triu_indices(len(unit), len(unit), offset=1)
        cosines = (unit @ unit.T)[first, second].cpu().numpy()
        found = {f"p{p:g}": [np.percentile(cosines, p)] for p in PERCENTILES}
        return found | {"effective_dim": [1 / np.mean(cosines**2)]}

    return sample.by_method(measure)


def project(x: Array) -> Floats:
    """The first two principal components of vectors ``(N, D)``, D at least 2: ``(N, 2)``."""
    from sklearn.decomposition import PCA  # not before something is projected

    # Exact for every N and D; the solver "auto" may be a randomized one.
    pca = PCA(2, svd_solver="covariance_eigh")
    return np.asarray(pca.fit_transform(to_rows(x).cpu().numpy()), dtype=np.float64)


def sentence_map(sample: Sample) -> pd.DataFrame:
    """A row per method and sentence, at most 400 of them.

    ``length`` is in the unit (``words``, or ``tokens`` with special tokens); ``x`` and ``y`` are
    the first two principal components of all sentences.
    """
    texts, unit = sample.sentences[:DRAWN_SENTENCES], "words"
    lengths = [len(split_words(text.lower())) for text in texts]
    if sample.encoder is not None:
        lengths, unit = sample.encoder.lengths(texts), "tokens"
    drawn = pd.DataFrame({"sentence": texts, "length": lengths, "unit": unit})
    return sample.by_method(
        lambda x: drawn.join(pd.DataFrame(project(x), columns=[*"xy"]))
    )


def draw_sentences(frame: pd.DataFrame) -> Figure:
    """A map of the sentences under each method that differs, coloured by length."""
    sides = frame[["x", "y"]].abs().groupby(frame["method"]).sum()
    differing = sides.round(3).drop_duplicates().index
    shown = frame[frame["method"].isin(differing)]
    return draw_facets(shown, "method", _draw_map, height=2.2)


def _draw_map(ax: Axes, frame: pd.DataFrame) -> None:
    ends = frame["length"].quantile([0.25, 0.5, 0.75])
    quarters = frame.groupby(np.searchsorted(ends, frame["length"]))
    for colour, (_, rows) in zip(ORDINAL, quarters, strict=False):
        lengths, unit = rows["length"], rows["unit"].iloc[0]
        label = f"{lengths.min()}\N{EN DASH}{lengths.max()} {unit}"
        scatter(ax, rows, color=colour, label=label)
    ax.set(xticks=[], yticks=[], xlabel="component 1", ylabel="component 2")

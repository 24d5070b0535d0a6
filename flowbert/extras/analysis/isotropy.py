"""Isotropy of vectors: spectrum, measures of it, cosines of random pairs, principal components."""

import math
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy import stats

from flowbert.arrays import Floats
from flowbert.data.text_files import split_words
from flowbert.extras.analysis.drawing import (
    ORDINAL,
    TITLE,
    draw_facets,
    line_looks,
    new_axes,
    scatter,
    short,
)
from flowbert.extras.analysis.sample import Sample, tokens_of
from flowbert.seeding import Stream
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


def nearest_neighbours(
    x: Array, k: int, metric: str = "cosine"
) -> tuple[Floats, NDArray[np.int64]]:
    """Distances to the k nearest other vectors and their rows, nearest first: both ``(N, k)``.

    Computed block by block in O(N^2 D) time.

    Args:
        x: Vectors, ``(N, D)``.
        k: Number of neighbours, below N.
        metric: ``cosine`` (the distance is one less the cosine) or ``euclidean``.

    Example:
        >>> x = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 1.0]])
        >>> nearest_neighbours(x, 1)[1].ravel()
        array([1, 0, 3, 2])
    """
    from sklearn.neighbors import NearestNeighbors  # not before something is measured

    rows = to_rows(x)
    if metric == "euclidean":
        rows = rows - rows.mean(
            dim=0
        )  # distances come from products: large means cost digits
    index = NearestNeighbors(n_neighbors=k, algorithm="brute", metric=metric)
    distances, neighbours = index.fit(rows.cpu().numpy()).kneighbors()
    return distances, neighbours


def hubness(x: Array, k: int = 10) -> float:
    r"""Hubness: skewness :math:`\operatorname{mean}_i (N_i - k)^3 / \sigma^3` of the k-occurrences.

    :math:`N_i` counts the other vectors that have vector i among their k nearest by cosine; its
    mean is k. High: a few vectors are neighbours of very many. Exact, in O(N^2 D) time; only
    values of equal N can be compared.

    References:
        Hubs in Space: Popular Nearest Neighbors in High-Dimensional Data (Radovanovic et al.,
        2010). https://www.jmlr.org/papers/v11/radovanovic10a.html

    Args:
        x: Vectors, ``(N, D)``; need not be normalized.
        k: Number of neighbours.

    Returns:
        The skewness; 0 where all vectors occur equally often; NaN for fewer than k + 1 vectors or
        one without direction.

    Example:
        >>> import torch
        >>> ring = torch.eye(5) + 0.5 * torch.roll(torch.eye(5), 1, 0)
        >>> hubness(ring, k=2)
        0.0
    """
    if len(x) <= k or not bool(unit_rows(x).isfinite().all()):
        return math.nan
    occurrences = np.bincount(nearest_neighbours(x, k)[1].ravel(), minlength=len(x))
    if bool((occurrences == k).all()):
        return 0.0
    return float(stats.skew(occurrences))


def spectra(sample: Sample) -> pd.DataFrame:
    """A row per method and direction, from 1, by falling variance.

    eigenvalue is that of the covariance, share its share of their sum.
    """
    return sample.by_method(_directions)


def _directions(x: Array) -> dict[str, Any]:
    values = spectrum(x).cpu().numpy()
    return {
        "direction": range(1, len(values) + 1),
        "eigenvalue": values,
        "share": values / values.sum(),
    }


def draw_spectra(frame: pd.DataFrame) -> Figure:
    """Share of the variance by direction on a logarithmic axis, a line per method."""
    figure, ax = new_axes()
    frame = frame[frame["share"] > 1e-12]  # less is rounding
    looks = line_looks(frame["method"])
    for method, rows in frame.groupby("method", sort=False):
        first, last = rows["share"].iloc[[0, -1]]
        look = looks[method] | {"gid": f"{TITLE}{method}: {first:.1%} to {last:.1g}"}
        ax.plot(rows["direction"], rows["share"], label=short(method), **look)
    ax.set(xlabel="direction", ylabel="share of the variance", yscale="log")
    ax.yaxis.set_major_formatter("{x:g}")  # the default writes formulas
    ax.minorticks_off()
    return figure


def space_measures(x: Array) -> dict[str, float]:
    """All measures of vectors ``(N, D)`` of distinct sentences, by name; D at least 2.

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
    """A row per method, see :func:`space_measures`.

    effective_rank and participation_ratio are from 1 to D, isoscore and partition_isotropy from 0
    to 1, mean_cosine from -1 to 1; a lower uniformity is more uniform; hubness is 0 without hubs.
    """
    return sample.by_method(lambda x: [space_measures(x)])


PERCENTILES = (50.0, 95.0, 99.0, 99.9)
RANDOM_PAIRS = 100_000  # 100 of them beyond the 99.9th percentile


def random_pair_cosines(x: Array, seed: int = 0) -> dict[str, float]:
    r"""Percentiles of the cosines of random pairs of vectors ``(N, D)``, N at least 2.

    Args:
        x: Vectors of different sentences.
        seed: Seed of the 100,000 pairs.

    Returns:
        ``p50``, ``p95``, ``p99`` and ``p99.9``, the cosines at these percentiles; ``error``, the
        standard error of the last, as of independent pairs; ``effective_dim``,
        :math:`D_{\mathrm{eff}} = 1 / \overline{c^2}`, D for uniform directions, 1 for equal ones.

    References:
        Confidence Intervals for Medians and Other Position Measures (Woodruff, 1952).
        https://doi.org/10.1080/01621459.1952.10483443

    Example:
        >>> found = random_pair_cosines(np.random.default_rng(0).normal(size=(400, 64)))
        >>> round(found["effective_dim"]), round(found["p99"], 1)
        (64, 0.3)
    """
    unit, rng = unit_rows(x).cpu().numpy(), Stream(seed, "pairs").rng()
    first = rng.integers(len(unit), size=RANDOM_PAIRS)
    second = (first + rng.integers(1, len(unit), size=RANDOM_PAIRS)) % len(unit)
    blocks = zip(np.array_split(first, 20), np.array_split(second, 20), strict=True)
    cosines = np.concatenate([np.vecdot(unit[i], unit[j]) for i, j in blocks])
    found = {f"p{p:g}": float(np.percentile(cosines, p)) for p in PERCENTILES}
    last = PERCENTILES[-1]
    rank_error = np.sqrt(last * (100 - last) / RANDOM_PAIRS)
    low, high = np.percentile(cosines, [last - rank_error, last + rank_error])
    effective_dim = 1 / float(np.mean(cosines**2))
    return found | {"error": float(high - low) / 2, "effective_dim": effective_dim}


def random_pairs(sample: Sample) -> pd.DataFrame:
    """A row per method, see :func:`random_pair_cosines`."""
    return sample.by_method(lambda x: [random_pair_cosines(x, sample.seed)])


DRAWN_SENTENCES = 400


def project(x: Array) -> Floats:
    """The first two principal components of vectors ``(N, D)``, D at least 2: ``(N, 2)``."""
    from sklearn.decomposition import PCA  # not before something is projected

    # Exact for every N and D; the solver "auto" may be a randomized one.
    pca = PCA(2, svd_solver="covariance_eigh")
    return np.asarray(pca.fit_transform(to_rows(x).cpu().numpy()), dtype=np.float64)


def sentences(sample: Sample) -> pd.DataFrame:
    """A row per method and sentence, at most 400 of them.

    length is in the unit (``words`` or ``tokens``), x and y the place on the first two principal
    components of all sentences.
    """
    texts, encoder = sample.sentences[:DRAWN_SENTENCES], sample.encoder
    drawn = pd.DataFrame({"sentence": texts})
    if encoder is None:
        words = [split_words(text.lower()) for text in texts]
        drawn = drawn.assign(length=list(map(len, words)), unit="words")
    else:
        tokens = tokens_of(encoder, texts)
        drawn = drawn.assign(length=list(map(len, tokens)), unit="tokens")
    return sample.by_method(
        lambda x: drawn.join(pd.DataFrame(project(x), columns=[*"xy"]))
    )


def draw_sentences(frame: pd.DataFrame) -> Figure:
    """A map of the sentences under each method, coloured by length."""
    return draw_facets(frame, "method", _draw_map, height=2.2, across=5)


def _draw_map(ax: Axes, frame: pd.DataFrame) -> None:
    groups = [frame]  # lengths that are all equal have no quantiles
    if frame["length"].nunique() > 1:
        quarters = pd.qcut(frame["length"], 4, duplicates="drop")
        groups = [rows for _, rows in frame.groupby(quarters, observed=True)]
    for colour, rows in zip(ORDINAL, groups, strict=False):
        ends = sorted({rows["length"].min(), rows["length"].max()})
        label = f"{' to '.join(map(str, ends))} {rows['unit'].iloc[0]}"
        scatter(ax, rows, color=colour, label=label)
    ax.set(xticks=[], yticks=[], xlabel="component 1", ylabel="component 2")

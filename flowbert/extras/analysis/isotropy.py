"""Isotropy of vectors: spectrum, measures of it, cosines of random pairs, principal components."""

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from flowbert.arrays import Floats
from flowbert.data.text_files import split_words
from flowbert.extras.analysis.drawing import (
    ORDINAL,
    TITLE,
    Plot,
    line_looks,
    scatter,
    short,
)
from flowbert.extras.analysis.measure import (
    MEASURES,
    RAW,
    Measure,
    Sample,
    by_method,
    number_table,
    tokens_of,
)
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
from flowbert.text_tables import Table

if TYPE_CHECKING:  # imported when it is used
    from matplotlib.axes import Axes


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


def draw_spectra(ax: "Axes", frame: pd.DataFrame) -> None:
    """Share of the variance by direction on a logarithmic axis.

    Args:
        ax: Axes.
        frame: Columns method, direction and share.
    """
    frame = frame[frame["share"] > 1e-12]  # less is rounding
    looks = line_looks(frame["method"])
    for method, rows in frame.groupby("method", sort=False):
        told = f"{TITLE}{method}: {rows['share'].iloc[0]:.1%} to {rows['share'].iloc[-1]:.1g}"
        look = looks[method] | {"label": short(method), "gid": told}
        ax.plot(rows["direction"], rows["share"], **look)
    ax.set(xlabel="direction", ylabel="share of the variance", yscale="log")
    ax.yaxis.set_major_formatter("{x:.0e}")  # the default writes formulas
    ax.minorticks_off()


def _describe_spectra(frame: pd.DataFrame) -> str:
    first = frame[frame["direction"] == 1]
    shares = zip(first["method"], first["share"], strict=True)
    told = ", ".join(f"{share:.1%} under {method}" for method, share in shares)
    return (
        "Eigenvalues of the covariance as shares of their sum; a flat line is isotropic. The first "
        f"direction has {told}."
    )


@MEASURES.register("spectra")
class Spectra(Measure):
    """A row per method and direction, from 1, by falling variance.

    eigenvalue is that of the covariance, share its share of their sum.
    """

    plots: ClassVar = {
        "spectra": Plot(
            draw_spectra,
            "Spectra",
            _describe_spectra,
        )
    }

    def frame(self, sample: Sample) -> pd.DataFrame:
        """The spectrum of every method."""
        return by_method(sample.vectors, _directions)


def _directions(x: Array) -> dict[str, Any]:
    values = spectrum(x).cpu().numpy()
    return {
        "direction": range(1, len(values) + 1),
        "eigenvalue": values,
        "share": values / values.sum(),
    }


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


@MEASURES.register("isotropy")
class Isotropy(Measure):
    """A row per method, see :func:`space_measures`.

    effective_rank and participation_ratio are from 1 to D, isoscore and partition_isotropy from 0
    to 1, mean_cosine from -1 to 1; a lower uniformity is more uniform; hubness is 0 without hubs.
    """

    title = "Isotropy of the vectors"

    def frame(self, sample: Sample) -> pd.DataFrame:
        """The measures of every method."""
        return by_method(sample.vectors, lambda x: [space_measures(x)])

    @classmethod
    def lines(cls, frame: pd.DataFrame) -> list[str]:
        """What the most isotropic method changes."""
        rows = frame.dropna(subset="isoscore").set_index("method")
        if RAW not in rows.index or (best := rows["isoscore"].idxmax()) == RAW:
            return []
        raw, other = rows.loc[RAW], rows.loc[best]
        return [
            f"From raw to {best}: mean cosine {raw['mean_cosine']:z.2f} to "
            f"{other['mean_cosine']:z.2f}, effective rank {raw['effective_rank']:.0f} to "
            f"{other['effective_rank']:.0f}."
        ]

    @classmethod
    def tables(cls, frame: pd.DataFrame) -> list[Table]:
        """Four measures, with the direction that is more isotropic, and the others."""
        arrows = {
            "mean_cosine": "→0",
            "effective_rank": "↑",
            "isoscore": "↑",
            "uniformity": "↓",
        }
        first = frame[["method", *arrows]].rename(
            columns=lambda x: f"{x} {arrows.get(x, '')}"
        )
        rest = number_table("Further measures", frame.drop(columns=list(arrows)))
        return [number_table(cls.title, first), replace(rest, folded=True)]


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


@MEASURES.register("random_pairs")
class RandomPairCosines(Measure):
    """A row per method, see :func:`random_pair_cosines`."""

    title = "Cosines of random pairs, by percentile"

    @classmethod
    def tables(cls, frame: pd.DataFrame) -> list[Table]:
        """The whole frame, folded."""
        return [replace(number_table(cls.title, frame), folded=True)]

    def frame(self, sample: Sample) -> pd.DataFrame:
        """The percentiles of every method."""
        return by_method(
            sample.vectors, lambda x: [random_pair_cosines(x, sample.seed)]
        )


DRAWN_SENTENCES = 400


def project(x: Array) -> Floats:
    """The first two principal components of vectors ``(N, D)``, D at least 2: ``(N, 2)``."""
    from sklearn.decomposition import PCA  # not before something is projected

    # Exact for every N and D; the solver "auto" may be a randomized one.
    pca = PCA(2, svd_solver="covariance_eigh")
    return np.asarray(pca.fit_transform(to_rows(x).cpu().numpy()), dtype=np.float64)


def draw_map(ax: "Axes", frame: pd.DataFrame) -> None:
    """Sentences in two dimensions, coloured by length.

    Args:
        ax: Axes.
        frame: Columns length, unit, x and y.
    """
    groups = [frame]  # lengths that are all equal have no quantiles
    if frame["length"].nunique() > 1:
        quarters = pd.qcut(frame["length"], 4, duplicates="drop")
        groups = [rows for _, rows in frame.groupby(quarters, observed=True)]
    for colour, rows in zip(ORDINAL, groups, strict=False):
        ends = sorted({rows["length"].min(), rows["length"].max()})
        label = f"{' to '.join(map(str, ends))} {rows['unit'].iloc[0]}"
        scatter(ax, rows, color=colour, label=label)
    ax.set(xticks=[], yticks=[])


def _describe_map(frame: pd.DataFrame) -> str:
    """Whether the length decides the first component."""
    groups = frame.groupby("method", sort=False)[["length", "x"]]
    related = groups.apply(lambda rows: abs(rows["length"].corr(rows["x"])))
    told = ", ".join(f"{value:z.2f} under {name}" for name, value in related.items())
    return (
        "The first two principal components. A point is a sentence, coloured by its length; scales "
        f"differ between methods. The first component and the length correlate by {told}."
    )


@MEASURES.register("sentences")
class Sentences(Measure):
    """A row per method and sentence, at most 400 of them.

    length is in the unit (``words`` or ``tokens``), x and y the place on the first two principal
    components of all sentences.
    """

    plots: ClassVar = {
        "map": Plot(
            draw_map,
            "Map of the measured sentences",
            _describe_map,
            facets="method",
            height=2.2,
        ),
    }

    def frame(self, sample: Sample) -> pd.DataFrame:
        """The drawn sentences under every method."""
        texts, encoder = sample.sentences[:DRAWN_SENTENCES], sample.encoder
        drawn = pd.DataFrame({"sentence": texts})
        if encoder is None:
            words = [split_words(text.lower()) for text in texts]
            drawn = drawn.assign(length=list(map(len, words)), unit="words")
        else:
            tokens = tokens_of(encoder, texts)
            drawn = drawn.assign(length=list(map(len, tokens)), unit="tokens")
        return by_method(
            sample.vectors,
            lambda x: drawn.join(pd.DataFrame(project(x), columns=[*"xy"])),
        )

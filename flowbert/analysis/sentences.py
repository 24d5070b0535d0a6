"""Sentences in their space: norm against length and frequency, and a map in two dimensions."""

import importlib.util
import warnings
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pandas as pd

from flowbert.analysis.drawing import INK, ORDINAL, Plot, colour_of, scatter
from flowbert.analysis.measure import MEASURES, Measure, by_method
from flowbert.analysis.sample import Sample
from flowbert.arrays import Floats
from flowbert.errors import UserError, choices
from flowbert.seeding import Stream
from flowbert.tasks.measures import Array, spearman, to_rows

if TYPE_CHECKING:  # imported when something is drawn or encoded
    from matplotlib.axes import Axes

PROJECTIONS = ("pca", "umap")


def check_projection(kind: str) -> None:
    """Check the kind of a projection before anything is computed.

    Raises:
        UserError: If the kind is unknown, or its package is not installed.
    """
    if kind not in PROJECTIONS:
        raise UserError(
            argument="map", received=kind, expected=choices(PROJECTIONS, kind)
        )
    if kind == "umap" and importlib.util.find_spec("umap") is None:
        raise UserError(
            "received 'umap', which is not installed; expected: pip install umap-learn",
            argument="map",
        )


def project(x: Array, kind: str = "pca", seed: int = 0) -> Floats:
    """Coordinates of vectors in two dimensions, ``(N, 2)``.

    References:
        UMAP: Uniform Manifold Approximation and Projection for Dimension Reduction
        (McInnes et al., 2018). https://arxiv.org/abs/1802.03426

    Args:
        x: Vectors, ``(N, D)``, D at least 2.
        kind: One of :data:`PROJECTIONS`: ``pca``, or ``umap`` by cosine with 15 neighbours.
        seed: Seed of UMAP.

    Raises:
        UserError: If the kind is unknown, or its package is not installed.
    """
    check_projection(kind)
    rows = to_rows(x).cpu().numpy()
    if kind == "pca":
        from sklearn.decomposition import PCA  # not before something is projected

        # Exact for every N and D; the solver "auto" may be a randomized one.
        places = PCA(2, svd_solver="covariance_eigh").fit_transform(rows)
    else:
        from umap import UMAP

        umap = UMAP(
            metric="cosine", n_jobs=1, random_state=Stream(seed, "map").number % 2**32
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of its threads, which a seed excludes
            places = umap.fit_transform(rows.astype(np.float32))
    return np.asarray(places, dtype=np.float64)


def norm_correlations(x: Array, lengths: pd.DataFrame) -> dict[str, float]:
    """Mean norm of vectors, and Spearman of the norm with length and word frequency.

    References:
        On the Sentence Embeddings from Pre-trained Language Models (Li et al., 2020), section 3.2:
        frequent words are nearer to the origin. https://arxiv.org/abs/2011.05864
        The rank correlation over sentences is ours.

    Args:
        x: Vectors of N sentences, ``(N, D)``.
        lengths: Columns length and frequency, N rows.

    Returns:
        ``mean_norm``, ``length_correlation``, ``frequency_correlation``; a correlation that does
        not exist is NaN.
    """
    norms = to_rows(x).norm(dim=1).cpu().numpy()
    return {
        "mean_norm": float(norms.mean()),
        "length_correlation": spearman(norms, lengths["length"].to_numpy()),
        "frequency_correlation": spearman(norms, lengths["frequency"].to_numpy()),
    }


@MEASURES.register("norms")
class Norms(Measure):
    """A row per method, see :func:`norm_correlations`."""

    def frame(self, sample: Sample) -> pd.DataFrame:
        """The correlations of every method."""
        return by_method(
            sample.vectors, lambda x: [norm_correlations(x, sample.lengths)]
        )


DRAWN_SENTENCES = 400


def draw_norms(ax: "Axes", frame: pd.DataFrame, by: str = "length") -> None:
    """Norm of each sentence's vector, with medians of eight groups of sentences.

    Args:
        ax: Axes.
        frame: Columns method, norm, that of ``by``, and the Spearman ``length_correlation`` or
            ``frequency_correlation``.
        by: ``length`` or ``frequency``.
    """
    points = pd.DataFrame({"x": frame[by], "y": frame["norm"] / frame["norm"].mean()})
    scatter(ax, points, color=colour_of(frame), alpha=0.5)
    groups = pd.qcut(points["x"], 8, duplicates="drop")
    medians = points.groupby(groups, observed=True).median()
    ax.plot(medians["x"], medians["y"], color=INK)
    text = f"Spearman {frame[f'{by}_correlation'].iloc[0]:.2f}"
    ax.text(0.97, 0.97, text, transform=ax.transAxes, ha="right", va="top")
    ax.locator_params(nbins=4)
    ax.set(xlabel=by, ylabel="norm / mean norm")


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


@MEASURES.register("sentences")
class Sentences(Measure):
    """A row per method and sentence, at most 400 of them.

    length is in the unit (``words`` or ``tokens``), frequency the mean log10 occurrences of the
    words or tokens, norm that of the vector, x and y its place on a projection of all sentences;
    the correlations are those of all sentences, see :func:`norm_correlations`.
    """

    plots: ClassVar = {
        "norms-length": Plot(
            draw_norms,
            "Norm and length",
            "A point is a sentence with its number of words or tokens, the line goes through "
            "medians.",
            facets="method",
            height=2.0,
            share="y",
        ),
        "norms-frequency": Plot(
            partial(draw_norms, by="frequency"),
            "Norm and word frequency",
            "Frequency: mean log10 count of the words or tokens of a sentence.",
            facets="method",
            height=2.0,
            share="y",
        ),
        "map": Plot(
            draw_map,
            "Map of the corpus",
            "The first two principal components, or UMAP. A point is a sentence, coloured by its "
            "length; scales differ between methods.",
            facets="method",
            height=2.2,
        ),
    }

    def frame(self, sample: Sample) -> pd.DataFrame:
        """The drawn sentences under every method."""
        drawn = sample.lengths.head(DRAWN_SENTENCES)
        drawn.insert(0, "sentence", sample.sentences[:DRAWN_SENTENCES])

        def place(x: Array) -> pd.DataFrame:
            rows = to_rows(x)
            places = project(rows, sample.projection, sample.seed)[: len(drawn)]
            correlations = norm_correlations(rows, sample.lengths)
            del correlations["mean_norm"]
            norms = rows[: len(drawn)].norm(dim=1).cpu().numpy()
            return drawn.assign(
                norm=norms, x=places[:, 0], y=places[:, 1], **correlations
            )

        return by_method(sample.vectors, place)

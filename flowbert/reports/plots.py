"""Pictures of the page: a function for each, which draws a data frame on axes.

A new picture is one function and one entry of :data:`PLOTS`.
"""

import math
from functools import partial
from operator import attrgetter
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.stats import chi

from flowbert.reports import frames
from flowbert.reports.drawing import INK, Plot, method_colours, short

if TYPE_CHECKING:  # matplotlib is imported when something is drawn
    from matplotlib.axes import Axes

_ORDINAL = ("#0d0887", "#9c179e", "#d8576b", "#f0a030", "#c8c800")
"""Steps of a quantity, from low to high."""

_SOURCES = {
    "step": ("batches", "#56b4e9"),
    "train": ("training sentences", "#0072b2"),
    "held_out": ("held-out sentences", "#d55e00"),
    "val": ("validation", "#d55e00"),
}
_MARKERS = "osD^vPX*"


def plot_intervals(ax: "Axes", frame: pd.DataFrame) -> None:
    """Figures with their intervals, a row per label.

    Args:
        ax: Axes.
        frame: Columns label, value, low and high.
    """
    rows = range(len(frame))
    colours = frame["label"].map(method_colours(frame["label"]))
    ax.hlines(
        rows, frame["low"], frame["high"], colors=colours, linewidth=2.5, alpha=0.6
    )
    ax.scatter(frame["value"], rows, s=25, color=colours, zorder=3)
    names = [fill(short(label), 34) for label in frame["label"]]
    ax.set_yticks(rows, names, fontsize=8)
    ax.set_ylim(len(frame) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)
    ax.locator_params(axis="x", nbins=5)


def plot_plane(ax: "Axes", frame: pd.DataFrame) -> None:
    """Alignment against uniformity; a training is a path that begins at a hollow point.

    Args:
        ax: Axes.
        frame: Columns label, step (NaN for a point), alignment and uniformity.
    """
    is_path = frame["step"].notna()
    colours = method_colours(frame["label"][~is_path])
    colours |= method_colours(frame["label"][is_path])
    for number, (label, rows) in enumerate(frame.groupby("label", sort=False)):
        colour, marker = colours[label], _MARKERS[number % len(_MARKERS)]
        x, y = rows["uniformity"], rows["alignment"]
        if is_path[rows.index[0]]:
            ax.plot(x, y, ".-", color=colour, label=short(label), zorder=3)
            ax.plot(x[:1], y[:1], "o", color=colour, markerfacecolor="white")
        else:
            ax.plot(x, y, marker, color=colour, label=short(label), markersize=7)
    ax.margins(0.12)
    ax.set(xlabel="uniformity (lower is better)", ylabel="alignment (lower is better)")


def plot_curve(ax: "Axes", frame: pd.DataFrame) -> None:
    """Spearman by training step; what does not train is dashed.

    Args:
        ax: Axes.
        frame: Columns method, step and spearman_wmean.
    """
    colours = method_colours(frame["method"])
    for method, rows in frame.groupby("method", sort=False):
        x, y = rows["step"], 100 * rows["spearman_wmean"]
        style = "o-" if y.nunique() > 1 else "x--"
        ax.plot(x, y, style, color=colours[method], label=short(method))
    ax.set(xlabel="step", ylabel="Spearman x 100 (wmean)")


def plot_logged(ax: "Axes", frame: pd.DataFrame) -> None:
    """One logged measure by training step, a line per source.

    Args:
        ax: Axes.
        frame: Columns source, step and value.
    """
    for source, rows in frame.groupby("source", sort=False):
        name, colour = _SOURCES[source]
        style = "-" if len(rows) > 30 else ".-"
        ax.plot(rows["step"], rows["value"], style, color=colour, label=name)
    ax.locator_params(nbins=5)
    ax.set(xlabel="step")


def plot_cosines(ax: "Axes", frame: pd.DataFrame) -> None:
    """Histograms of cosines, a band of gold scores above the other, with their medians.

    Args:
        ax: Axes.
        frame: Columns method, gold_from, gold_to, median, cosine_from, cosine_to and share (of the
            band's pairs).
    """
    names = []
    bands = frame.groupby(["gold_from", "gold_to", "median"], sort=False, dropna=False)
    for place, ((low, high, median), rows) in enumerate(bands):
        names.append(f"{low:.3g} to {high:.3g}")
        steps = place + 0.85 * rows["share"] / frame["share"].max()
        edges = [*rows["cosine_from"], rows["cosine_to"].iloc[-1]]
        colour = _colour(frame)
        ax.stairs(steps, edges, baseline=place, fill=True, color=colour, alpha=0.6)
        ax.plot([median, median], [place, place + 0.85], color=INK)
    ax.set_yticks(range(len(names)), names)
    ax.grid(visible=False, axis="y")
    ax.locator_params(axis="x", nbins=4)
    ax.set(xlabel="cosine", ylabel="gold score")


def plot_spectra(ax: "Axes", frame: pd.DataFrame) -> None:
    """Share of the variance by direction on a logarithmic axis.

    Args:
        ax: Axes.
        frame: Columns method, direction and share.
    """
    frame = frame[frame["share"] > 1e-12]  # less is rounding
    colours = method_colours(frame["method"])
    for method, rows in frame.groupby("method", sort=False):
        label = f"{short(method)}, first {rows['share'].iloc[0]:.1%}"
        ax.plot(rows["direction"], rows["share"], color=colours[method], label=label)
    ax.set(xlabel="direction", ylabel="share of the variance", yscale="log")
    ax.yaxis.set_major_formatter("{x:.0e}")  # the default writes formulas
    ax.minorticks_off()


def _colour(frame: pd.DataFrame) -> str:
    (colour,) = method_colours(frame["method"]).values()
    return colour


def _scatter(ax: "Axes", points: pd.DataFrame, **look: Any) -> None:
    """Many small points; in an SVG they are one image."""
    ax.scatter(points["x"], points["y"], s=5, rasterized=True, **look)


def plot_norms(ax: "Axes", frame: pd.DataFrame, by: str = "length") -> None:
    """Norm of each sentence's vector, with medians of eight groups of sentences.

    Args:
        ax: Axes.
        frame: Columns method, norm, that of ``by``, and the Spearman ``length_correlation`` or
            ``frequency_correlation``.
        by: ``length`` or ``frequency``.
    """
    points = pd.DataFrame({"x": frame[by], "y": frame["norm"] / frame["norm"].mean()})
    _scatter(ax, points, color=_colour(frame), alpha=0.5)
    groups = pd.qcut(points["x"], 8, duplicates="drop")
    medians = points.groupby(groups, observed=True).median()
    ax.plot(medians["x"], medians["y"], color=INK)
    text = f"Spearman {frame[f'{by}_correlation'].iloc[0]:.2f}"
    ax.text(0.97, 0.97, text, transform=ax.transAxes, ha="right", va="top")
    ax.locator_params(nbins=4)
    ax.set(xlabel=by, ylabel="norm / mean norm")


def plot_map(ax: "Axes", frame: pd.DataFrame) -> None:
    """Sentences on a map of two dimensions, coloured by length.

    Args:
        ax: Axes.
        frame: Columns length, unit, x and y.
    """
    groups = [frame]  # lengths that are all equal have no quantiles
    if frame["length"].nunique() > 1:
        quarters = pd.qcut(frame["length"], 4, duplicates="drop")
        groups = [rows for _, rows in frame.groupby(quarters, observed=True)]
    for colour, rows in zip(_ORDINAL, groups, strict=False):
        label = _span(rows["length"].min(), rows["length"].max())
        _scatter(ax, rows, color=colour, label=f"{label} {rows['unit'].iloc[0]}")
    ax.set(xticks=[], yticks=[])


def _span(low: int, high: int) -> str:
    return f"{low}" if low == high else f"{low} to {high}"


def plot_latent_norms(ax: "Axes", frame: pd.DataFrame) -> None:
    """Histogram of the norms, and the density of a standard normal's.

    Args:
        ax: Axes.
        frame: Columns method, dim, norm_from, norm_to (divided by the root of dim) and vectors.
    """
    edges = [*frame["norm_from"], frame["norm_to"].iloc[-1]]
    ax.hist(
        frame["norm_from"],
        edges,
        weights=frame["vectors"],
        density=True,
        color=_colour(frame),
        alpha=0.6,
    )
    dim = frame["dim"].iloc[0]
    root = math.sqrt(dim)
    x = np.linspace(max(0.01, 1 - 4 / root), 1 + 4 / root, 80)
    ax.plot(x, root * chi.pdf(root * x, dim), color=INK)
    ax.locator_params(nbins=4)
    ax.set(xlabel="norm / root of the dimension", ylabel="density")


def plot_latent_moments(ax: "Axes", frame: pd.DataFrame) -> None:
    """Skewness and excess kurtosis of each dimension; a cross marks the normal distribution.

    Args:
        ax: Axes.
        frame: Columns method, skewness and excess_kurtosis.
    """
    ax.scatter(frame["skewness"], frame["excess_kurtosis"], s=5, color=_colour(frame))
    ax.plot(0, 0, "+", color=INK, markersize=10)
    ax.locator_params(nbins=4)
    ax.set(xlabel="skewness", ylabel="excess kurtosis")


def plot_words(ax: "Axes", frame: pd.DataFrame) -> None:
    """Tokens on the first two singular directions of the input embeddings.

    Args:
        ax: Axes.
        frame: Columns ranks, x and y.
    """
    buckets = frame.groupby("ranks", sort=False)
    for colour, (ranks, rows) in zip(_ORDINAL, buckets, strict=False):
        _scatter(ax, rows, color=colour, label=f"rank {ranks}")
    ax.set(xlabel="first singular direction", ylabel="second singular direction")


def plot_buckets(ax: "Axes", frame: pd.DataFrame) -> None:
    """Norm of input embeddings and distance to their neighbours by frequency.

    Args:
        ax: Axes.
        frame: Columns ranks, norm and distance_3.
    """
    ranks, label = frame["ranks"], "distance to 3 neighbours"
    ax.plot(ranks, frame["norm"], "o-", color=INK, label="norm")
    ax.plot(ranks, frame["distance_3"], "s--", color=_ORDINAL[2], label=label)
    ax.set_ylim(bottom=0)
    ax.set(xlabel="frequency rank", ylabel="mean")


def plot_layers(ax: "Axes", frame: pd.DataFrame) -> None:
    """Mean cosine of tokens by layer.

    Args:
        ax: Axes.
        frame: Columns layer and mean_cosine.
    """
    ax.plot(frame["layer"], frame["mean_cosine"], "o-", color=INK)
    ax.set_ylim(min(0, 1.1 * frame["mean_cosine"].min()), 1)
    ax.set(xlabel="hidden state (0: embedding layer)", ylabel="mean cosine")


def _plane_caption(frame: pd.DataFrame) -> str:
    text = (
        "Alignment: mean squared distance of positive pairs. Uniformity: how evenly all sentences "
        "cover the sphere. Means over the tasks."
    )
    if frame["step"].notna().any():
        text += " A path is a training on the development split, from its hollow point."
    return text


def _curve_caption(frame: pd.DataFrame) -> str:
    text = "One point per validation."
    if (frame.groupby("method")["spearman_wmean"].nunique() == 1).any():
        text += " Dashed: methods without training."
    return text


def _logged_caption(frame: pd.DataFrame) -> str:
    text = "Batches are measured as they are trained on, with noise or dropout; the others without."
    bits = frame[frame["measure"] == "bits_per_dim"]
    without = bits[bits["source"] != "step"].groupby("source")["value"]
    if (without.last() > without.first()).any():
        text += (
            " The density of a flow that is trained with noise is that of the noisy vectors: of "
            "vectors without noise its bits may rise while those of the batches fall."
        )
    return text


PLOTS = {
    "intervals": Plot(
        plot_intervals,
        frames.intervals,
        "Results",
        "Results with their intervals",
        "Spearman x 100 (wmean) and other headline metrics. Lines: 95% bootstrap intervals, or the "
        "standard deviation over several seeds.",
        facets="column",
        rows="label",
        height=0.5,
        share="y",
        across=2,
    ),
    "plane": Plot(
        plot_plane,
        frames.plane,
        "Results",
        "Alignment and uniformity",
        _plane_caption,
        height=3.0,
    ),
    "curve": Plot(
        plot_curve,
        frames.curve,
        "Training",
        "Spearman during the training",
        _curve_caption,
        facets="task",
        across=2,
    ),
    "training": Plot(
        plot_logged,
        frames.training,
        "Training",
        "Logged values",
        _logged_caption,
        facets="measure",
        height=2.0,
    ),
    "cosines": Plot(
        plot_cosines,
        frames.cosines,
        "Embedding space",
        "Cosines by gold score",
        "Histograms of the pairs in each band of the gold score, with their medians. The less the "
        "bands overlap, the better the ranking.",
        facets="task method",
        share="xy",
    ),
    "spectra": Plot(
        plot_spectra,
        attrgetter("analysis.spectra"),
        "Embedding space",
        "Spectra",
        "Eigenvalues of the covariance as shares of their sum; a flat line is isotropic.",
    ),
    "norms-length": Plot(
        plot_norms,
        frames.sentences,
        "Embedding space",
        "Norm and length",
        "A point is a sentence with its number of words or tokens, the line goes through medians.",
        facets="method",
        height=2.0,
        share="y",
    ),
    "norms-frequency": Plot(
        partial(plot_norms, by="frequency"),
        frames.sentences,
        "Embedding space",
        "Norm and word frequency",
        "Frequency: mean log10 count of the words or tokens of a sentence.",
        facets="method",
        height=2.0,
        share="y",
    ),
    "map": Plot(
        plot_map,
        frames.sentences,
        "Embedding space",
        "Map of the corpus",
        "The first two principal components, or UMAP. A point is a sentence, coloured by its "
        "length; scales differ between methods.",
        facets="method",
        height=2.2,
    ),
    "latent-norms": Plot(
        plot_latent_norms,
        attrgetter("analysis.latent_norms"),
        "Embedding space",
        "Norms of latents",
        "Filled: the vectors; line: a standard normal distribution of this dimension.",
        facets="method",
        height=2.0,
        share="xy",
    ),
    "latent-moments": Plot(
        plot_latent_moments,
        attrgetter("analysis.latent_moments"),
        "Embedding space",
        "Moments of latents",
        "A point is a dimension, the cross a normal distribution; above it, tails are heavier.",
        facets="method",
        height=2.0,
        share="xy",
    ),
    "bits": Plot(
        plot_intervals,
        frames.bits,
        "Embedding space",
        "Density of held-out sentences",
        "Bits per dimension, lower is better. What a flow gains over the best Gaussian is what no "
        "linear map sees.",
        rows="label",
        height=0.5,
    ),
    "words": Plot(
        plot_words,
        attrgetter("analysis.words"),
        "Word space",
        "Input embeddings by frequency",
        "Tokens on two singular directions (Gao et al., 2019); rank 0 is the most frequent.",
    ),
    "buckets": Plot(
        plot_buckets,
        attrgetter("analysis.buckets"),
        "Word space",
        "Norm and sparsity of input embeddings",
        "In BERT rare words are farther from the origin and from each other (Li et al., 2020).",
    ),
    "layers": Plot(
        plot_layers,
        attrgetter("analysis.layers"),
        "Word space",
        "Anisotropy by layer",
        "Mean cosine of random tokens in sentences (Ethayarajh, 2019); 0 if isotropic. Input: "
        "distinct tokens before the first layer.",
    ),
}
"""Pictures by the name of their files, in the order of the page."""

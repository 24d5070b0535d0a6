"""Some sentences to draw: length, frequency and norm of each, and its place in two dimensions."""

from functools import partial
from typing import TYPE_CHECKING, ClassVar

import pandas as pd

from flowbert.analysis.drawing import INK, ORDINAL, Plot, colour_of, scatter
from flowbert.analysis.measure import MEASURES, Measure, by_method
from flowbert.analysis.norms import norm_correlations
from flowbert.analysis.projection import project
from flowbert.analysis.sample import Sample
from flowbert.tasks.measures import Array, to_rows

if TYPE_CHECKING:  # matplotlib is imported when something is drawn
    from matplotlib.axes import Axes

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
        label = _span(rows["length"].min(), rows["length"].max())
        scatter(ax, rows, color=colour, label=f"{label} {rows['unit'].iloc[0]}")
    ax.set(xticks=[], yticks=[])


def _span(low: int, high: int) -> str:
    return f"{low}" if low == high else f"{low} to {high}"


@MEASURES.register("sentences")
class Sentences(Measure):
    """A row per method and sentence, at most 400 of them.

    length is in the unit (``words`` or ``tokens``), frequency the mean log10 occurrences of the
    words or tokens, norm that of the vector, x and y its place on a projection of all sentences;
    the correlations are those of all sentences, see :func:`norm_correlations`.
    """

    columns: ClassVar = {
        "method": str,
        "sentence": str,
        "length": int,
        "frequency": float,
        "unit": str,
        "norm": float,
        "x": float,
        "y": float,
        "length_correlation": float,
        "frequency_correlation": float,
    }
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
        drawn = drawn.assign(sentence=sample.sentences[:DRAWN_SENTENCES])

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

"""Results as plots: metrics with their intervals, and the plane of alignment and uniformity."""

from typing import TYPE_CHECKING

import pandas as pd

from flowbert.analysis.drawing import Plot, draw_intervals, method_colours, short
from flowbert.analysis.table import in_order
from flowbert.experiments.columns import main_aggregation
from flowbert.reports.content import PageContent
from flowbert.reports.content_plot import ContentPlot
from flowbert.reports.result_tables import GEOMETRY, mean_geometry, summarize
from flowbert.reports.training_plots import PLANE, curve

if TYPE_CHECKING:  # matplotlib is imported when something is drawn
    from matplotlib.axes import Axes

MOST_LABELS = 40
"""Largest number of rows of the intervals: more cannot be told apart."""

_MARKERS = "osD^vPX*"


def intervals(content: PageContent) -> pd.DataFrame:
    """Headline scores with their intervals, or one standard deviation.

    Columns column, label, value, low and high. Every label has a row in every column, so that
    facets are alike.
    """
    scores = summarize(content.frame).dropna(subset="value")
    metrics = scores["metric"].unique()
    main = {metric: main_aggregation(scores, metric) for metric in metrics}
    shown = scores["aggregation"] == scores["metric"].map(main)
    scores = scores[shown & ~scores["metric"].isin(GEOMETRY)]
    if scores["split"].nunique() > 1:
        columns = scores["column"] + " " + scores["split"]
        scores = scores.assign(column=columns)
    keys = ["column", "label"]
    values = [scores[key].unique() for key in keys]
    if len(values[1]) > MOST_LABELS:
        return scores[:0]
    every = pd.MultiIndex.from_product(values, names=keys)
    scores = scores.set_index(keys)[["value", "low", "high"]]
    return scores.reindex(every).reset_index()


def plane(content: PageContent) -> pd.DataFrame:
    """Alignment and uniformity, means over the tasks.

    Columns label, step, alignment and uniformity. Results have no step; a method that is trained
    has a row per validation.
    """
    means = mean_geometry(summarize(content.frame)).set_index(["label", "metric"])
    points = in_order(means["value"], ["metric"]).reset_index()
    path = curve(content).groupby(["method", "step"])[PLANE].mean().reset_index()
    trained = path.groupby("method")["alignment"].transform("nunique") > 1
    path = path[trained].assign(label=path["method"] + ", training")
    columns = ["label", "step", *PLANE]
    frame = pd.concat([points, path], ignore_index=True).reindex(columns=columns)
    return frame.dropna(subset=PLANE)


def draw_plane(ax: "Axes", frame: pd.DataFrame) -> None:
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


def _plane_caption(frame: pd.DataFrame) -> str:
    text = (
        "Alignment: mean squared distance of positive pairs. Uniformity: how evenly all sentences "
        "cover the sphere. Means over the tasks."
    )
    if frame["step"].notna().any():
        text += " A path is a training on the development split, from its hollow point."
    return text


RESULT_PLOTS = {
    "intervals": ContentPlot(
        "Results",
        intervals,
        Plot(
            draw_intervals,
            "Results with their intervals",
            "Spearman x 100 and other headline metrics, as in the first tables. Lines: 95% "
            "bootstrap intervals, or the standard deviation over several seeds.",
            facets="column",
            rows="label",
            height=0.5,
            share="y",
            across=2,
        ),
    ),
    "plane": ContentPlot(
        "Results",
        plane,
        Plot(draw_plane, "Alignment and uniformity", _plane_caption, height=3.0),
    ),
}
"""Plots by the names of their files."""

"""Frames and pictures of results and logs: layers, alignment and uniformity, trainings."""

from itertools import cycle
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from flowbert.experiments.labels import name_rows
from flowbert.experiments.summary import Summary
from flowbert.extras.analysis import VIEWS, View
from flowbert.extras.analysis.drawing import (
    ORDINAL,
    draw_facets,
    method_colour,
    new_axes,
    short,
)
from flowbert.text_tables import in_order

FEWEST_LAYERS = 3
"""Smallest number of single layers for a plot of their scores."""

PLANE = ["alignment", "uniformity"]
_MARKERS = "osD^vPX<>*"

_LOG_SOURCES = {
    "step": ("batches", ORDINAL[0]),
    "train": ("training sentences", ORDINAL[1]),
    "held_out": ("held-out sentences", ORDINAL[2]),
    "val": ("validation", ORDINAL[2]),
}


def training(metrics: pd.DataFrame) -> pd.DataFrame:
    """Values that were logged more than once, in long form.

    The columns are measure (``bits_per_dim``, or a task with its metric), source (``step``,
    ``train``, ``held_out``, ``val``, or a method), step and value.
    """
    lines = []
    for name in metrics:
        *task, measure = str(name).split("/")
        source = task.pop(0) if task else ""
        values = metrics[name].dropna().rename("value")
        if measure == "spearman_wmean":
            measure = f"{'/'.join(task[:-1])} {task[-1]}, Spearman \N{MULTIPLICATION SIGN} 100"
            values *= 100
        elif task or source not in _LOG_SOURCES or measure == "nll":
            continue  # nll is that of bits_per_dim in another unit
        if len(values) > 1:
            named = values.reset_index().assign(measure=measure, source=source)
            lines.append(named)
    return pd.concat(lines, ignore_index=True) if lines else pd.DataFrame()


def draw_training(frame: pd.DataFrame) -> Figure:
    """Each logged measure by training step, a line per source."""
    return draw_facets(frame, "measure", _draw_logged, height=2.0)


def _draw_logged(ax: Axes, frame: pd.DataFrame) -> None:
    for source, rows in frame.groupby("source", sort=False):
        name, colour = _LOG_SOURCES.get(source, (source, method_colour(source)))
        style = "-" if len(rows) > 30 else ".-"
        ax.plot(rows["step"], rows["value"], style, color=colour, label=short(name))
    ax.locator_params(axis="x", nbins=4, integer=True)  # a step is a whole number
    ax.locator_params(axis="y", nbins=5)
    ax.set(xlabel="step")


def plane(summary: Summary) -> pd.DataFrame:
    """Mean alignment and uniformity over the tasks: columns label, alignment and uniformity."""
    scores = summary.space
    means = scores[scores["metric"].isin(PLANE)].set_index(["label", "split", "metric"])
    points = in_order(means["value"], ["metric"]).reset_index()
    if points["split"].nunique() > 1:
        points["label"] += ", " + points["split"]
    return points.reindex(columns=["label", *PLANE]).dropna()


def draw_plane(frame: pd.DataFrame) -> Figure:
    """Plot alignment against uniformity, with a colour and a marker per method."""
    figure, ax = new_axes()
    for point, marker in zip(frame.itertuples(), cycle(_MARKERS), strict=False):
        look: Any = {"color": method_colour(point.label), "label": short(point.label)}
        ax.plot(point.uniformity, point.alignment, marker, markersize=6, **look)
    ax.margins(0.12)
    ax.set(xlabel="uniformity (lower is better)", ylabel="alignment (lower is better)")
    return figure


def layer_scores(summary: Summary) -> pd.DataFrame:
    """Scores of single layers, the lowest first: columns column, line, layers and value."""
    cells = summary.cells
    is_single = cells["layers"].str.isdigit() | cells["layers"].eq("last")
    rows = cells[is_single & cells["metric"].eq("spearman")]
    layers = sorted(rows["layers"].unique(), key=lambda name: (len(name), name))
    if len(layers) < FEWEST_LAYERS:
        return pd.DataFrame()
    rows = rows.assign(line=name_rows(rows.assign(layers=""))["label"])
    rows = rows.sort_values("layers", key=lambda names: names.map(layers.index))
    return rows[["column", "line", "layers", "value"]]


def draw_layer_scores(frame: pd.DataFrame) -> Figure:
    """Scores over the layers, axes per task and split, a line per method."""
    return draw_facets(frame, "column", _draw_layers)


def _draw_layers(ax: Axes, frame: pd.DataFrame) -> None:
    for line, rows in frame.groupby("line", sort=False):
        look: Any = {"color": method_colour(line), "label": short(line)}
        ax.plot(rows["layers"], rows["value"], "o-", **look)
    ax.set(xlabel="layer", ylabel="Spearman \N{MULTIPLICATION SIGN} 100")


def result_frames(summary: Summary, metrics: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Frames of results and logs, by the names of their views."""
    frames = {"training": training(metrics)}
    if len(summary.frame):
        frames["plane"] = plane(summary)
        frames["layer_scores"] = layer_scores(summary)
    return frames


VIEWS |= {
    "layer_scores": View(
        "Results",
        "Scores over the layers",
        "Vectors of one layer each, 0: before the first block.",
        draw_layer_scores,
    ),
    "plane": View(
        "Embedding space",
        "Alignment and uniformity",
        "Alignment: mean squared distance of pairs that mean the same. Uniformity: how evenly all "
        "sentences cover the sphere. What spreads all sentences (left) also moves such pairs "
        "apart (up): the score says whether that is worth it.",
        draw_plane,
    ),
    "training": View(
        "Training",
        "Logged values",
        "Values of batches include noise or dropout; the others do not.",
        draw_training,
    ),
}

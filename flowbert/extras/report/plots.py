"""Frames and pictures of results and of what was logged: layers, the plane, trainings."""

import math
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from flowbert.experiments.intervals import main_aggregation
from flowbert.experiments.labels import name_rows
from flowbert.experiments.summary import Summary
from flowbert.extras.analysis.drawing import (
    ORDINAL,
    TITLE,
    draw_facets,
    method_colours,
    short,
)
from flowbert.text_tables import in_order

FEWEST_LAYERS = 3
"""Smallest number of single layers whose scores are drawn."""

PLANE = ["alignment", "uniformity"]
_NAME_LENGTH = 48  # characters beside a point

_LOG_SOURCES = {
    "step": ("batches", ORDINAL[0]),
    "train": ("training sentences", ORDINAL[1]),
    "held_out": ("held-out sentences", ORDINAL[2]),
    "val": ("validation", ORDINAL[2]),
}


def training(metrics: pd.DataFrame) -> pd.DataFrame:
    """What was logged more than once, in long form.

    Columns measure (``bits_per_dim``, or ``STSB dev, Spearman x 100``), source (``step``,
    ``train``, ``held_out``, ``val``, or a method), step and value.
    """
    lines = [pd.DataFrame(columns=["measure", "source", "step", "value"])]
    for name in metrics:
        *place, measure = str(name).split("/")
        source, values = place[0] if place else "", metrics[name].dropna()
        if measure == "spearman_wmean":
            measure = f"{'/'.join(place[1:-1])} {place[-1]}, Spearman x 100"
            values = 100 * values
        elif len(place) > 1 or source not in _LOG_SOURCES:
            continue
        if len(values) > 1:
            line = values.rename("value").reset_index()
            lines.append(line.assign(measure=measure, source=source))
    rows = pd.concat(lines[1:] or lines, ignore_index=True)
    if (rows["measure"] == "bits_per_dim").any():  # nll in other units
        rows = rows[rows["measure"] != "nll"]
    return rows


def draw_training(frame: pd.DataFrame) -> Figure:
    """Each logged measure by training step, a line per source."""
    return draw_facets(frame, "measure", _draw_logged, height=2.0)


def _draw_logged(ax: Axes, frame: pd.DataFrame) -> None:
    colours = method_colours(frame["source"])
    for source, rows in frame.groupby("source", sort=False):
        name, colour = _LOG_SOURCES.get(source, (source, colours[source]))
        values = rows["value"]
        told = f"{TITLE}{name}: {values.iloc[0]:.4g} to {values.iloc[-1]:.4g}"
        style = "-" if len(rows) > 30 else ".-"
        look: Any = {"color": colour, "label": short(name), "gid": told}
        ax.plot(rows["step"], values, style, **look)
    ax.locator_params(axis="x", nbins=4, integer=True)  # a step is a whole number
    ax.locator_params(axis="y", nbins=5)
    ax.set(xlabel="step")


def plane(summary: Summary) -> pd.DataFrame:
    """Alignment and uniformity, means over the tasks.

    Columns group (run and encoder), label, alignment and uniformity.
    """
    space = summary.space
    means = space[space["metric"].isin(PLANE)].set_index(["label", "split", "metric"])
    points = in_order(means["value"], ["metric"]).reset_index()
    rows = summary.rows.set_index("label")[["group", "name"]]
    points = points.join(rows, on="label").dropna(subset="name")
    points["label"] = points["name"]
    if points["split"].nunique() > 1:
        points["label"] += ", " + points["split"]
    return points.reindex(columns=["group", "label", *PLANE]).dropna(subset=PLANE)


def draw_plane(frame: pd.DataFrame) -> Figure:
    """Alignment against uniformity for each encoder."""
    return draw_facets(frame, "group", _draw_plane, height=3.0, across=2, share=True)


def _draw_plane(ax: Axes, frame: pd.DataFrame) -> None:
    # Points that cannot be told apart are one, with all names.
    points = frame.round(2).groupby(PLANE[::-1], sort=False)["label"]
    names = []
    for (x, y), there in points:
        colour = method_colours(there)[there.iloc[0]]
        name = ", ".join(there)
        told = f"{TITLE}{name}: alignment {y:z.2f}, uniformity {x:z.2f}"
        ax.plot(x, y, "o", color=colour, markersize=6, gid=told)
        names.append((x, y, name, colour))
    ax.margins(0.12)
    ax.set(xlabel="uniformity (lower is better)", ylabel="alignment (lower is better)")
    # Each name is above those of lower points.
    middle, line, level = sum(ax.get_xlim()) / 2, 0.16 * ax.figure.dpi, -math.inf
    for x, y, name, colour in sorted(names, key=lambda point: point[1]):
        height = ax.transData.transform((x, y))[1]
        level = max(height, level + line)
        side = -1 if x > middle else 1
        look: Any = {"ha": "right" if x > middle else "left", "va": "center"}
        look |= {"xytext": (8 * side, (level - height) * 72 / ax.figure.dpi)}
        look |= {"textcoords": "offset points", "color": colour}
        ax.annotate(short(name, _NAME_LENGTH), (x, y), **look)


def layer_scores(frame: pd.DataFrame) -> pd.DataFrame:
    """Spearman x 100 by single layer: columns task, line, layer, position and value."""
    is_single = frame["layers"].str.isdigit() | frame["layers"].eq("last")
    shown = is_single & frame["metric"].eq("spearman")
    shown &= frame["aggregation"].eq(main_aggregation(frame))
    rows = frame[shown]
    layers = sorted(rows["layers"].unique(), key=lambda name: (len(name), name))
    if len(layers) < FEWEST_LAYERS:
        return pd.DataFrame()
    lines = name_rows(rows.assign(layers=""))["label"] + ", " + rows["split"]
    rows = rows.assign(line=lines, layer=rows["layers"], value=100 * rows["value"])
    keys = ["task", "line", "layer"]
    means = rows.groupby(keys, sort=False)["value"].mean().reset_index()
    return means.assign(position=means["layer"].map(layers.index))


def draw_layer_scores(frame: pd.DataFrame) -> Figure:
    """Scores over the layers, axes per task, a line per method and split."""
    return draw_facets(frame, "task", _draw_layers)


def _draw_layers(ax: Axes, frame: pd.DataFrame) -> None:
    colours = method_colours(frame["line"])
    for line, rows in frame.sort_values("position").groupby("line", sort=False):
        style = "o--" if str(line).endswith(", dev") else "o-"
        x, y = rows["position"], rows["value"]
        told = f"{TITLE}{line}: {y.min():z.1f} to {y.max():z.1f}"
        ax.plot(x, y, style, color=colours[line], label=short(line), gid=told)
    ticks = frame.drop_duplicates("position")
    ax.set_xticks(ticks["position"], ticks["layer"])
    ax.set(xlabel="layer", ylabel="Spearman \N{MULTIPLICATION SIGN} 100")

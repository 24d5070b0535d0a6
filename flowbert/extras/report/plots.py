"""Plots of results and of what was logged: intervals, alignment and uniformity, trainings."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pandas as pd

from flowbert.experiments.intervals import main_aggregation
from flowbert.experiments.labels import labels
from flowbert.experiments.plan import UNMAPPED
from flowbert.extras.analysis.drawing import ORDINAL, TITLE, Plot, method_colours, short
from flowbert.extras.report.content import PageContent
from flowbert.text_tables import in_order

if TYPE_CHECKING:  # matplotlib is imported when something is drawn
    from matplotlib.axes import Axes

_LOGGED = r"(?P<source>step|train|held_out|val)/(?P<measure>[^/]+)"
_VALIDATION = r"(?P<source>[^/]+)/(?P<task>.+)/(?P<split>[^/]+)/spearman_wmean"
PLANE = ["alignment", "uniformity"]

_LOG_SOURCES = {
    "step": ("batches", ORDINAL[0]),
    "train": ("training sentences", ORDINAL[1]),
    "held_out": ("held-out sentences", ORDINAL[2]),
    "val": ("validation", ORDINAL[2]),
}


def training(content: PageContent) -> pd.DataFrame:
    """Spearman x 100 of each validation; logged losses, learning rate and gradient norm.

    Columns measure (``bits_per_dim``), source (a method; ``step``, ``train``, ``held_out`` or
    ``val``), step and value.
    """
    scores = _matching(content.metrics, _VALIDATION)
    is_test = scores["split"] == "test"  # which is measured after the training
    if not is_test.all():
        scores = scores[~is_test]
    measure = "Spearman x 100, " + scores["task"] + " " + scores["split"]
    scores = scores.assign(measure=measure, value=100 * scores["value"])
    rows = _matching(content.metrics, _LOGGED)
    if (rows["measure"] == "bits_per_dim").any():  # nll in other units
        rows = rows[rows["measure"] != "nll"]
    return pd.concat([scores, rows])[["measure", "source", "step", "value"]]


def draw_logged(ax: "Axes", frame: pd.DataFrame) -> None:
    """One logged measure by training step, a line per source.

    Args:
        ax: Axes.
        frame: Columns source, step and value.
    """
    colours = method_colours(frame["source"])
    for source, rows in frame.groupby("source", sort=False):
        name, colour = _LOG_SOURCES.get(source, (source, colours[source]))
        style = "-" if len(rows) > 30 else ".-"
        values = rows["value"]
        told = f"{TITLE}{name}: {values.iloc[0]:.4g} to {values.iloc[-1]:.4g}"
        look: Any = {"color": colour, "label": short(name), "gid": told}
        ax.plot(rows["step"], values, style, **look)
    ax.locator_params(axis="x", nbins=4, integer=True)  # a step is a whole number
    ax.locator_params(axis="y", nbins=5)
    ax.set(xlabel="step")


def _logged_caption(frame: pd.DataFrame) -> str:
    ends = frame.groupby(["measure", "source"], sort=False)["value"].agg(
        ["first", "last"]
    )
    told = [
        f"{measure} of {_LOG_SOURCES.get(source, [source])[0]} {first:.4g} to {last:.4g}"
        for (measure, source), first, last in ends.itertuples()
    ]
    return f"{'; '.join(told)}. Values of batches include noise or dropout; the others do not."


def _matching(metrics: pd.DataFrame, pattern: str) -> pd.DataFrame:
    """Columns whose names match a pattern, in long form: its groups, step and value."""
    rows = metrics.reset_index().melt("step", var_name="name").dropna()
    names = rows["name"].astype(str).str.extract(f"^{pattern}$")
    return rows.join(names).dropna()


def plane(content: PageContent) -> pd.DataFrame:
    """Alignment and uniformity, means over the tasks.

    Columns group (run and encoder), label, alignment and uniformity.
    """
    scores = content.summary.scores
    means = scores[scores["metric"].isin(PLANE)].set_index(["label", "split", "metric"])
    points = in_order(means["value"], ["metric"]).reset_index()
    rows = content.summary.rows.set_index("label")
    points = points.join(rows[["group", "name"]], on="label").dropna(subset="name")
    points["label"] = points["name"]
    if points["split"].nunique() > 1:
        points["label"] += ", " + points["split"]
    return points.reindex(columns=["group", "label", *PLANE]).dropna(subset=PLANE)


def draw_plane(ax: "Axes", frame: pd.DataFrame) -> None:
    """Alignment against uniformity.

    Args:
        ax: Axes.
        frame: Columns label, alignment and uniformity.
    """
    names: list[tuple[float, float, str, str]] = []
    # Points that cannot be told apart are one, with all names.
    points = frame.round(2).groupby(PLANE[::-1], sort=False)["label"]
    for (x, y), labels_there in points:
        colour = method_colours(labels_there)[labels_there.iloc[0]]
        text = (
            f"{TITLE}{', '.join(labels_there)}: alignment {y:z.2f}, uniformity {x:z.2f}"
        )
        ax.plot(x, y, "o", color=colour, markersize=6, gid=text)
        names.append((x, y, ", ".join(labels_there), colour))
    ax.margins(0.12)
    _name_points(ax, names)
    ax.set(xlabel="uniformity (lower is better)", ylabel="alignment (lower is better)")


def _name_points(ax: "Axes", names: list[tuple[float, float, str, str]]) -> None:
    """Write names beside points, each above those of lower points; at most 48 characters."""
    middle, line, level = sum(ax.get_xlim()) / 2, 0.16 * ax.figure.dpi, -math.inf
    for x, y, text, colour in sorted(names, key=lambda name: name[1]):
        height = ax.transData.transform((x, y))[1]
        level = max(height, level + line)
        side: Any = "right" if x > middle else "left"
        place = (-6 if x > middle else 6, (level - height) * 72 / ax.figure.dpi)
        look: Any = {"ha": side, "va": "center", "color": colour}
        ax.annotate(short(text, 48), (x, y), place, textcoords="offset points", **look)


def _plane_caption(frame: pd.DataFrame) -> str:
    text = (
        "Alignment: mean squared distance of positive pairs. Uniformity: how evenly all sentences "
        "cover the sphere. Means over the tasks."
    )
    for group, rows in frame.groupby("group", sort=False):
        first, last = rows.loc[rows["uniformity"].agg(["idxmax", "idxmin"])].to_dict(
            "records"
        )
        text += f" {group}, {first['label']} to {last['label']}: " + ", ".join(
            f"{name} {first[name]:z.2f} to {last[name]:z.2f}" for name in PLANE
        )
        text += "."
    return text


FEWEST_LAYERS = 3
"""Smallest number of single layers whose scores are drawn."""


def layer_scores(content: PageContent) -> pd.DataFrame:
    """Spearman x 100 by single layer: columns column, line, layer, position and value."""
    frame = content.frame
    shown = frame["metric"].eq("spearman") & frame["layers"].str.fullmatch(r"\d+|last")
    shown &= frame["aggregation"].eq(main_aggregation(frame))
    rows = frame[shown]
    layers = sorted(rows["layers"].unique(), key=lambda name: (len(name), name))
    if len(layers) < FEWEST_LAYERS:
        rows = rows[:0]
    method = rows["method"].replace({UNMAPPED: "raw"})
    lines = labels(rows.assign(layers="", method=method)) + ", " + rows["split"]
    rows = rows.assign(column=rows["task"], line=lines, layer=rows["layers"])
    keys = ["column", "line", "layer"]
    means = rows.groupby(keys, sort=False)["value"].mean().mul(100).reset_index()
    return means.assign(position=means["layer"].map(layers.index))


def draw_layer_scores(ax: "Axes", frame: pd.DataFrame) -> None:
    """Scores over the layers, a line per method and split.

    Args:
        ax: Axes.
        frame: Columns line, layer, position and value.
    """
    colours = method_colours(frame["line"])
    for line, rows in frame.sort_values("position").groupby("line", sort=False):
        style = "o--" if str(line).endswith(", dev") else "o-"
        x, y = rows["position"], rows["value"]
        told = f"{TITLE}{line}: {y.min():z.1f} to {y.max():z.1f}"
        ax.plot(x, y, style, color=colours[line], label=short(line), gid=told)
    ticks = frame.drop_duplicates("position")
    ax.set_xticks(ticks["position"], ticks["layer"])
    ax.set(xlabel="layer", ylabel="Spearman x 100")


def _layers_caption(frame: pd.DataFrame) -> str:
    best = frame.loc[frame.groupby(["column", "line"], sort=False)["value"].idxmax()]
    told = [
        f"{row.column} {row.line}: {row.value:.1f} at layer {row.layer}"
        for row in best.itertuples()
    ]
    return (
        "Vectors of one layer each, 0: before the first block; dashed: the development split. "
        f"Highest: {'; '.join(told)}."
    )


CONTENT_PLOTS: dict[str, tuple[str, Callable[[PageContent], pd.DataFrame], Plot]] = {
    "sweep": (
        "Results",
        layer_scores,
        Plot(
            draw_layer_scores,
            "Scores over the layers",
            _layers_caption,
            facets="column",
            across=2,
        ),
    ),
    "plane": (
        "Results",
        plane,
        Plot(
            draw_plane,
            "Alignment and uniformity",
            _plane_caption,
            facets="group",
            height=3.0,
            share=True,
            across=1,
        ),
    ),
    "training": (
        "Training",
        training,
        Plot(
            draw_logged,
            "Logged values",
            _logged_caption,
            facets="measure",
            height=2.0,
        ),
    ),
}
"""By the name of its files: section of a plot, function that makes its frame, and the plot."""

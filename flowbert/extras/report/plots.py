"""Plots of results and of what was logged: intervals, alignment and uniformity, trainings."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pandas as pd

from flowbert.experiments.intervals import labels, main_aggregation
from flowbert.experiments.plan import UNMAPPED
from flowbert.experiments.result_tables import mean_geometry, summarize
from flowbert.extras.analysis.drawing import (
    TITLE,
    Plot,
    draw_intervals,
    method_colours,
    short,
)
from flowbert.extras.report.content import PageContent
from flowbert.extras.report.summary import Summary
from flowbert.text_tables import in_order

if TYPE_CHECKING:  # matplotlib is imported when something is drawn
    from matplotlib.axes import Axes

_LOGGED = r"(?P<source>step|train|held_out|val)/(?P<measure>[^/]+)"
_VALIDATION = (
    r"(?P<method>[^/]+)/(?P<task>.+)/(?P<split>[^/]+)"
    r"/(?P<metric>spearman_wmean|alignment|uniformity)"
)
PLANE = ["alignment", "uniformity"]

_LOG_SOURCES = {
    "step": ("batches", "#56b4e9"),
    "train": ("training sentences", "#0072b2"),
    "held_out": ("held-out sentences", "#d55e00"),
    "val": ("validation", "#d55e00"),
}


def curve(content: PageContent) -> pd.DataFrame:
    """Each validation: columns method, task, step, spearman_wmean, alignment, uniformity."""
    rows = _matching(content.metrics, _VALIDATION)
    if (rows["split"] != "test").any():  # the test split is measured after the training
        rows = rows[rows["split"] != "test"]
    rows = rows.assign(task=rows["task"] + " " + rows["split"])
    index = ["method", "task", "step"]
    wide = rows.pivot(index=index, columns="metric", values="value")
    return wide.reindex(columns=["spearman_wmean", *PLANE]).reset_index()


def draw_curve(ax: "Axes", frame: pd.DataFrame) -> None:
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


def _curve_caption(frame: pd.DataFrame) -> str:
    text = "One point per validation."
    if (frame.groupby("method")["spearman_wmean"].nunique() == 1).any():
        text += " Dashed: methods without training."
    return text


def training(content: PageContent) -> pd.DataFrame:
    """Logged losses, learning rate and gradient norm.

    Columns measure (``bits_per_dim``), source (``step``, ``train``, ``held_out`` or ``val``), step
    and value.
    """
    rows = _matching(content.metrics, _LOGGED)
    if (rows["measure"] == "bits_per_dim").any():  # nll in other units
        rows = rows[rows["measure"] != "nll"]
    return rows[["measure", "source", "step", "value"]]


def draw_logged(ax: "Axes", frame: pd.DataFrame) -> None:
    """One logged measure by training step, a line per source.

    Args:
        ax: Axes.
        frame: Columns source, step and value.
    """
    for source, rows in frame.groupby("source", sort=False):
        name, colour = _LOG_SOURCES[source]
        style = "-" if len(rows) > 30 else ".-"
        ax.plot(rows["step"], rows["value"], style, color=colour, label=name)
    ax.locator_params(axis="x", nbins=4, integer=True)  # a step is a whole number
    ax.locator_params(axis="y", nbins=5)
    ax.set(xlabel="step")


def _logged_caption(frame: pd.DataFrame) -> str:
    text = "Values of batches include noise or dropout; the others do not."
    bits = frame[frame["measure"] == "bits_per_dim"]
    without = bits[bits["source"] != "step"].groupby("source")["value"]
    if (without.last() > without.first()).any():
        text += (
            " The density of a flow that is trained with noise is that of the noisy vectors: of "
            "vectors without noise its bits may rise while those of the batches fall."
        )
    return text


def _matching(metrics: pd.DataFrame, pattern: str) -> pd.DataFrame:
    """Columns whose names match a pattern, in long form: its groups, step and value."""
    rows = metrics.reset_index().melt("step", var_name="name").dropna()
    names = rows["name"].astype(str).str.extract(f"^{pattern}$")
    return rows.join(names).dropna()


_LEADER = "#6b6b6b"  # lines from points to their names
MOST_LABELS = 40
"""Largest number of rows of the intervals: more cannot be told apart."""


def intervals(content: PageContent) -> pd.DataFrame:
    """Headline scores with their intervals, sorted as in the table, the lead column first.

    Columns column, label, group, value, low and high. Every label has a row in every column, so
    that facets are alike.
    """
    summary = Summary(content)
    if len(summary.rows) > MOST_LABELS:
        return summary.cells[:0]
    keys = ["column", "label"]
    values = [summary.columns, summary.rows["label"]]
    every = pd.MultiIndex.from_product(values, names=keys)
    scores = summary.cells.drop_duplicates(keys).set_index(keys)[
        ["value", "low", "high"]
    ]
    groups = summary.rows.set_index("label")["group"]
    return scores.reindex(every).reset_index().join(groups, on="label")


def plane(content: PageContent) -> pd.DataFrame:
    """Alignment and uniformity, means over the tasks.

    Columns label, step, alignment and uniformity. Results have no step; a method that is trained
    has a row per validation.
    """
    means = mean_geometry(summarize(content.frame)).set_index(
        ["label", "split", "metric"]
    )
    points = in_order(means["value"], ["metric"]).reset_index()
    if points["split"].nunique() > 1:
        points["label"] += ", " + points["split"]
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
    names: list[tuple[float, float, str]] = []
    for label, rows in frame[is_path].groupby("label", sort=False):
        colour = method_colours([label])[label]
        x, y = rows["uniformity"], rows["alignment"]
        ax.plot(x, y, ".-", color=colour, gid=f"{TITLE}{label}")
        ax.plot(x[:1], y[:1], "o", color=colour, markerfacecolor="none")
        names.append((x.iloc[-1], y.iloc[-1], str(label)))
    # Points that cannot be told apart are one, with all names.
    points = frame[~is_path].round(2).groupby(PLANE[::-1], sort=False)["label"]
    for (x, y), labels_there in points:
        colour = method_colours(labels_there)[labels_there.iloc[0]]
        text = (
            f"{TITLE}{', '.join(labels_there)}: alignment {y:z.2f}, uniformity {x:z.2f}"
        )
        ax.plot(x, y, "o", color=colour, markersize=6, gid=text)
        names.append((x, y, ", ".join(labels_there)))
    ax.margins(0.12)
    _name_points(ax, names)
    ax.set(xlabel="uniformity (lower is better)", ylabel="alignment (lower is better)")


def _name_points(ax: "Axes", names: list[tuple[float, float, str]]) -> None:
    """Write names beside points, each above those that are near it; at most 48 characters."""
    placed: list[tuple[float, float]] = []
    (first, last), line = ax.get_xlim(), 0.16 * ax.figure.dpi
    for x, y, text in sorted(names, key=lambda name: name[1]):
        left, top = ax.transData.transform((x, y))
        near = [
            height + line for start, height in placed if abs(start - left) < 20 * line
        ]
        level = max([top, *near])
        placed.append((left, level))
        is_right = x > (first + last) / 2
        place = (-6 if is_right else 6, (level - top) * 72 / ax.figure.dpi)
        side: Any = "right" if is_right else "left"
        leader = (
            {"arrowstyle": "-", "color": _LEADER, "linewidth": 0.6} if near else None
        )
        note = ax.annotate(
            short(text, 48),
            (x, y),
            place,
            textcoords="offset points",
            arrowprops=leader,
        )
        note.set(ha=side, va="center")


def _plane_caption(frame: pd.DataFrame) -> str:
    text = (
        "Alignment: mean squared distance of positive pairs. Uniformity: how evenly all sentences "
        "cover the sphere. Means over the tasks."
    )
    if frame["step"].notna().any():
        text += " A path shows a training on the development split; it begins at the hollow point."
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
        ax.plot(x, y, style, color=colours[line], label=short(line))
    ticks = frame.drop_duplicates("position")
    ax.set_xticks(ticks["position"], ticks["layer"])
    ax.set(xlabel="layer", ylabel="Spearman x 100")


CONTENT_PLOTS: dict[str, tuple[str, Callable[[PageContent], pd.DataFrame], Plot]] = {
    "intervals": (
        "Results",
        intervals,
        Plot(
            draw_intervals,
            "Results with their intervals",
            "Spearman x 100 and other headline metrics. Lines: 95% bootstrap intervals, of "
            "several seeds over pairs and seeds; dotted: raw.",
            facets="column",
            rows="label",
            height=0.5,
            share="y",
            across=2,
        ),
    ),
    "sweep": (
        "Results",
        layer_scores,
        Plot(
            draw_layer_scores,
            "Scores over the layers",
            "Vectors of one layer each, 0: before the first block; dashed: the development split.",
            facets="column",
            across=2,
        ),
    ),
    "plane": (
        "Results",
        plane,
        Plot(draw_plane, "Alignment and uniformity", _plane_caption, height=3.0),
    ),
    "curve": (
        "Training",
        curve,
        Plot(
            draw_curve,
            "Spearman during the training",
            _curve_caption,
            facets="task",
            across=2,
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

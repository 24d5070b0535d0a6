"""What was logged in a training: validations, losses, learning rate."""

from typing import TYPE_CHECKING

import pandas as pd

from flowbert.analysis.drawing import Plot, method_colours, short
from flowbert.reports.content import PageContent
from flowbert.reports.content_plot import ContentPlot

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
    text = "Batches are measured as they are trained on, with noise or dropout; the others without."
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


TRAINING_PLOTS = {
    "curve": ContentPlot(
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
    "training": ContentPlot(
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
"""Plots by the names of their files."""

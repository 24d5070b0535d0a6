"""Frames of the pictures, from what a run wrote."""

import math

import pandas as pd

from flowbert.experiments.columns import aggregation_of
from flowbert.experiments.results import by_labels
from flowbert.reports.runs import Run
from flowbert.reports.tables import GEOMETRY, mean_geometry, summarize

MOST_LABELS = 40
"""Largest number of rows of the intervals: more cannot be told apart."""

_LOGGED = r"(?P<source>step|train|held_out|val)/(?P<measure>[^/]+)"
_VALIDATED = (
    r"(?P<method>[^/]+)/(?P<task>.+)/(?P<split>[^/]+)"
    r"/(?P<metric>spearman_wmean|alignment|uniformity)"
)
_PLANE = ["alignment", "uniformity"]


def intervals(run: Run) -> pd.DataFrame:
    """Headline figures with their intervals, or one standard deviation.

    Columns column, label, value, low and high. Every label has a row in every column, so that
    facets are alike.
    """
    figures = summarize(run.frame).dropna(subset="value")
    shown = figures["aggregation"] == figures["metric"].map(aggregation_of)
    figures = figures[shown & ~figures["metric"].isin(GEOMETRY)]
    if figures["split"].nunique() > 1:
        columns = figures["column"] + " " + figures["split"]
        figures = figures.assign(column=columns)
    keys = ["column", "label"]
    values = [figures[key].unique() for key in keys]
    if len(values[1]) > MOST_LABELS:
        return figures[:0]
    every = pd.MultiIndex.from_product(values, names=keys)
    figures = figures.set_index(keys)[["value", "low", "high"]]
    return figures.reindex(every).reset_index()


def plane(run: Run) -> pd.DataFrame:
    """Alignment and uniformity, means over the tasks.

    Columns label, step, alignment and uniformity. Results have no step; a method that is trained
    has a row per validation.
    """
    means = mean_geometry(summarize(run.frame)).set_index(["label", "metric"])["value"]
    points = by_labels(dict(means.items()), math.nan).rename_axis("label").reset_index()
    path = curve(run).groupby(["method", "step"])[_PLANE].mean().reset_index()
    trained = path.groupby("method")["alignment"].transform("nunique") > 1
    path = path[trained].assign(label=path["method"] + ", training")
    columns = ["label", "step", *_PLANE]
    frame = pd.concat([points, path], ignore_index=True).reindex(columns=columns)
    return frame.dropna(subset=_PLANE)


def curve(run: Run) -> pd.DataFrame:
    """Each validation: columns method, task, step, spearman_wmean, alignment, uniformity."""
    rows = _matching(run.metrics, _VALIDATED)
    if (rows["split"] != "test").any():  # the test split is measured after the training
        rows = rows[rows["split"] != "test"]
    rows = rows.assign(task=rows["task"] + " " + rows["split"])
    index = ["method", "task", "step"]
    wide = rows.pivot(index=index, columns="metric", values="value")
    return wide.reindex(columns=["spearman_wmean", *_PLANE]).reset_index()


def training(run: Run) -> pd.DataFrame:
    """Logged losses, learning rate and gradient norm.

    Columns measure (``bits_per_dim``), source (``step``, ``train``, ``held_out`` or ``val``), step
    and value.
    """
    rows = _matching(run.metrics, _LOGGED)
    if (rows["measure"] == "bits_per_dim").any():  # nll in other units
        rows = rows[rows["measure"] != "nll"]
    return rows[["measure", "source", "step", "value"]]


def _matching(metrics: pd.DataFrame, pattern: str) -> pd.DataFrame:
    """Columns whose names match a pattern, in long form: its groups, step and value."""
    rows = metrics.reset_index().melt("step", var_name="name").dropna()
    names = rows["name"].astype(str).str.extract(f"^{pattern}$")
    return rows.join(names).dropna()


def cosines(run: Run) -> pd.DataFrame:
    """Histograms of cosines by gold score, with the median of each band.

    The column share is that of a bin in its band's pairs. Bins that are empty everywhere are cut
    off at both ends.
    """
    keys = ["task", "method", "gold_from"]
    bands = run.analysis.bands[[*keys, "median", "pairs"]]
    frame = run.analysis.band_cosines.merge(bands, on=keys, suffixes=("", "_of_band"))
    frame["share"] = (frame["pairs"] / frame["pairs_of_band"]).fillna(0)
    used = frame[frame["pairs"] > 0]
    first, last = used["cosine_from"].min(), used["cosine_to"].max()
    return frame[frame["cosine_from"].ge(first) & frame["cosine_to"].le(last)]


def sentences(run: Run) -> pd.DataFrame:
    """The drawn sentences, with the correlations of their method."""
    return run.analysis.sentences.merge(run.analysis.norms, on="method", how="left")


def bits(run: Run) -> pd.DataFrame:
    """Bits per dimension as the rows of intervals, the best density first."""
    columns = {"density": "label", "bits": "value"}
    frame = run.analysis.bits.rename(columns=columns).sort_values("value")
    return frame.reindex(columns=["label", "value", "low", "high"])

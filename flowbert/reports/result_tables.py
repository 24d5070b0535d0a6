"""Tables of results: methods by tasks, for the terminal and for the page."""

import math
import shutil
import sys
from operator import attrgetter
from typing import Any

import numpy as np
import pandas as pd

from flowbert.analysis import Analysis
from flowbert.analysis.measure import measure_of
from flowbert.analysis.table import Table, make_table, short_names
from flowbert.data.scored_pairs import SAMPLE_TASK
from flowbert.experiments.intervals import main_aggregation
from flowbert.experiments.results import Results
from flowbert.tasks import AGGREGATIONS

GEOMETRY = ("alignment", "uniformity", "mean_cosine")
"""Metrics of the embedding space, which are not scaled by 100."""

_LABEL_COLUMNS = ("run", "encoder", "layers", "pooling", "corpus")
_UNSET = ("", "none", "given")  # raw is fitted on nothing: that is no other corpus
_OTHERS = "Other metrics"
_SIGNS = {"alignment": -1, "uniformity": -1} | dict.fromkeys(
    ("mean_cosine", "edit_distance_words", "edit_distance_characters"), math.nan
)
"""1, the default: higher is better; NaN: neither."""


def labels(frame: pd.DataFrame) -> pd.Series:
    """Name of each row: its method, ``*`` if it is supervised, and the settings that differ.

    Args:
        frame: Rows of results; a column ``run`` is a setting like others.
    """
    parts = label_parts(frame)
    names = pd.Series("", frame.index)
    for column in parts.columns[:-1]:
        names += (", " + parts[column]).where(parts[column] != "", "")
    names = (" (" + names.str.removeprefix(", ") + ")").where(names != "", "")
    return parts["method"] + names


def label_parts(frame: pd.DataFrame) -> pd.DataFrame:
    """Parts of the name of each row: a column for each setting that differs, and the method.

    Args:
        frame: Rows of results.
    """
    settings = _settings(frame)
    stars = frame["supervised"].map({True: "*", False: ""})
    differs = settings.columns[settings.nunique() > 1]
    return settings[differs].fillna("").assign(method=frame["method"] + stars)


def _settings(frame: pd.DataFrame) -> pd.DataFrame:
    """Encoder, layers and so on of each row; NaN where a method has none."""
    settings = frame[[name for name in _LABEL_COLUMNS if name in frame]].astype(object)
    settings = settings.where(~settings.isin(_UNSET))
    names = short_names(settings["encoder"].dropna())
    return settings.assign(encoder=settings["encoder"].map(names))


def summarize(frame: pd.DataFrame) -> pd.DataFrame:
    """Results by label: the mean over the seeds, x 100 but for :data:`GEOMETRY`.

    Args:
        frame: Rows of results.

    Returns:
        A row per label, split, task, metric and aggregation: value, std (of several seeds), low
        and high (ends of the 95% interval; of several seeds value -+ std), and column, its place in
        a table.
    """
    keys = ["label", "split", "task", "metric", "aggregation"]
    grouped = frame.assign(label=labels(frame)).groupby(keys, sort=False)
    scores = grouped.agg(
        value=("value", lambda values: values.mean(skipna=False)),
        std=("value", "std"),
        low=("low", "first"),
        high=("high", "first"),
    ).reset_index()
    # Of one seed there is no standard deviation.
    scores["low"] = (scores["value"] - scores["std"]).fillna(scores["low"])
    scores["high"] = (scores["value"] + scores["std"]).fillna(scores["high"])
    scaled = ~scores["metric"].isin(GEOMETRY)
    scores.loc[scaled, ["value", "std", "low", "high"]] *= 100
    scores["column"] = [_column(score) for score in scores.itertuples()]
    return scores


def _column(score: Any) -> str:
    if score.metric in GEOMETRY:
        return str(score.metric).replace("_", " ")
    if score.metric != "spearman":
        return f"{score.task} {score.metric}"
    if score.aggregation not in AGGREGATIONS:
        return f"{score.task} {score.aggregation}"
    return str(score.task)


def mean_geometry(scores: pd.DataFrame) -> pd.DataFrame:
    """Alignment, uniformity and mean cosine by label, the mean over the tasks; NaN if one is."""
    geometry = scores[scores["metric"].isin(GEOMETRY)]
    keys = ["label", "metric", "column"]
    means = geometry.groupby(keys, sort=False)["value"].agg(
        lambda values: values.mean(skipna=False)
    )
    return means.reset_index()


def result_tables(frame: pd.DataFrame) -> list[Table]:
    """Tables of each split: Spearman by task, other metrics, other aggregations.

    Args:
        frame: Rows of results.
    """
    tables = []
    main = f"Spearman x 100 ({main_aggregation(frame)})"
    for split, scores in summarize(frame).groupby("split", sort=False):
        geometry = mean_geometry(scores)
        scores = scores[~scores["metric"].isin(GEOMETRY)]
        aggregations = scores["aggregation"]
        known = aggregations.isin(AGGREGATIONS)
        names = "Spearman x 100 (" + aggregations.where(known, "each subset") + ")"
        spearman = scores["metric"] == "spearman"
        scores = scores.assign(table=names.where(spearman, _OTHERS))
        one_task = scores["task"][spearman].nunique() == 1
        geometry["table"] = main if one_task else _OTHERS
        scores = pd.concat([scores, geometry], ignore_index=True)
        for name, rows in scores.groupby("table", sort=False):
            texts = [_cell(score) for score in rows.itertuples()]
            cells = rows.assign(text=texts, bold=_best(rows))
            folded = name not in (main, _OTHERS)
            tables.append(make_table(f"{name}, {split} split", cells, folded=folded))
    return sorted(tables, key=attrgetter("folded"))


def _cell(score: Any) -> str:
    if math.isfinite(score.std):
        return f"{score.value:z.2f}\n±{score.std:.2f}"
    if math.isfinite(score.low):
        return f"{score.value:z.2f}\n[{score.low:z.1f}, {score.high:z.1f}]"
    return f"{score.value:z.2f}"


def _best(scores: pd.DataFrame) -> pd.Series:
    """Whether each score is the best of its column, and no other is in its interval."""
    signs = np.array([_SIGNS.get(metric, 1.0) for metric in scores["metric"]])
    ranks = (scores["value"] * signs).round(2)
    worst = signs * scores["low"].where(signs > 0, scores["high"])
    worst = worst.fillna(ranks)
    best = pd.Series(False, scores.index)
    for _, column in ranks.dropna().groupby(scores["column"]):
        first = column.idxmax()
        others = column.drop(first)
        best[first] = len(others) > 0 and bool((others < worst[first]).all())
    return best


def notes(frame: pd.DataFrame) -> list[str]:
    """Notes on shared settings, symbols of the tables, and missing scores.

    Args:
        frame: Rows of results.
    """
    settings = _settings(frame)
    shared = [
        f"{name} {settings[name].dropna().iloc[0]}"
        for name in settings
        if settings[name].nunique() == 1
    ]
    sample = f"{SAMPLE_TASK} is generated text: its scores say nothing about real data"
    geometry = "alignment, uniformity: mean over the tasks, lower is better"
    shown = {
        ", ".join(shared): True,
        "[ ]: 95% interval": frame["low"].notna().any(),
        "±: standard deviation over the seeds": frame["seed"].nunique() > 1,
        geometry: frame["metric"].isin(GEOMETRY).any(),
        "*: learned from labelled pairs": frame["supervised"].any(),
        sample: SAMPLE_TASK in set(frame["task"]),
    }
    lines = [line for line, applies in shown.items() if applies]
    failed = frame[frame["reason"] != ""].groupby(["method", "reason"], sort=False)
    for (method, reason), rows in failed:
        tasks = rows["task"].unique()
        own = frame[frame["method"].eq(method) & frame["task"].isin(tasks)]
        metrics = rows["metric"].unique()
        if len(metrics) < own["metric"].nunique():
            method = f"{', '.join(metrics).replace('_', ' ')} of {method}"
        lines.append(f"nan: {method} on {', '.join(tasks)}: {reason}")
    return [line for line in lines if line]


def print_results(results: Results) -> None:
    """Print tables and notes; in a terminal, wide tables continue below."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for table in result_tables(results.frame):
        if not table.folded:
            print(f"{table.title}\n\n{table_text(table, width)}\n")
    print("\n".join(notes(results.frame)))


def analysis_text(analysis: Analysis) -> str:
    """The tables of numbers of an analysis as plain text."""
    return "\n\n".join(
        f"{table.title}\n\n{table_text(table)}"
        for name, frame in analysis.frames.items()
        for table in measure_of(name).tables(frame)
        if not table.words
    )


def table_text(table: Table, width: int | None = None) -> str:
    """A table as plain text, intervals in lines of their own.

    Args:
        table: The table.
        width: Largest number of characters in a line: the settings of a row then follow its name
            in a second line, and further columns below.
    """
    first = table.text.map(lambda cell: cell.partition("\n")[0])
    second = table.text.map(lambda cell: cell.partition("\n")[2])
    text = _interleave(first, second.rename(lambda _: ""))
    if width is None or max(map(len, text.splitlines())) <= width:
        return text
    parts = [str(name).partition(" (") for name in first.index]
    first.index = pd.Index([name for name, _, _ in parts])
    rest = [f"  ({rest}" if rest else "" for _, _, rest in parts]
    return _interleave(first, second.set_axis(rest), width)


def _interleave(
    first: pd.DataFrame, second: pd.DataFrame, width: int | None = None
) -> str:
    """Both lines of each row; a line without any text is left out."""
    order = np.arange(2 * len(first)).reshape(2, -1).T.ravel()
    lines = pd.concat([first, second]).iloc[order]
    shown = (lines != "").any(axis=1).to_numpy() | (lines.index.to_numpy() != "")
    return str(lines[shown].to_string(line_width=width))

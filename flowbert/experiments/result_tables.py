"""Scores of results by label, further tables of a page, and notes."""

import math
from typing import Any

import pandas as pd

from flowbert.data.scored_pairs import SAMPLE_TASK
from flowbert.experiments.intervals import (
    GAIN_KEYS,
    labels,
    main_aggregation,
    settings_of,
)
from flowbert.experiments.results import Results
from flowbert.tasks import AGGREGATIONS
from flowbert.tasks.measures import SPACE_METRICS
from flowbert.text_tables import Table, make_table


def summarize(frame: pd.DataFrame) -> pd.DataFrame:
    """Results by label: the mean over the seeds, x 100 but for those of the vectors' space.

    Args:
        frame: Rows of results.

    Returns:
        A row per label, split, task, metric and aggregation: value, std (of several seeds), low
        and high (ends of the 95% interval), and column, its place in a table.
    """
    keys = ["label", "split", "task", "metric", "aggregation"]
    grouped = frame.assign(label=labels(frame)).groupby(keys, sort=False)
    scores = grouped.agg(
        value=("value", lambda values: values.mean(skipna=False)),
        # Of several seeds the last row is their mean.
        std=("std", lambda values: values.iloc[-1]),
        low=("low", lambda values: values.iloc[-1]),
        high=("high", lambda values: values.iloc[-1]),
    ).reset_index()
    scaled = ~scores["metric"].isin(SPACE_METRICS)
    scores.loc[scaled, ["value", "std", "low", "high"]] *= 100
    scores["column"] = [_column(score) for score in scores.itertuples()]
    if scores["split"].nunique() > 1:
        scores["column"] += " " + scores["split"]
    return scores


def _column(score: Any) -> str:
    if score.metric in SPACE_METRICS:
        return str(score.metric).replace("_", " ")
    if score.metric != "spearman":
        return f"{score.task} {score.metric}"
    if score.aggregation not in AGGREGATIONS:
        return f"{score.task} {score.aggregation}"
    return str(score.task)


def mean_geometry(scores: pd.DataFrame) -> pd.DataFrame:
    """Metrics of the vectors' space by label, the mean over the tasks; NaN if one is."""
    geometry = scores[scores["metric"].isin(SPACE_METRICS)]
    keys = ["label", "split", "metric", "column"]
    means = geometry.groupby(keys, sort=False)["value"].agg(
        lambda values: values.mean(skipna=False)
    )
    return means.reset_index()


def result_tables(frame: pd.DataFrame) -> list[Table]:
    """Folded tables of what the first table of a page leaves out.

    Spearman under other aggregations, unless all scores are equal; other metrics.

    Args:
        frame: Rows of results.
    """
    scores = summarize(frame)
    is_space = scores["metric"].isin(SPACE_METRICS)
    geometry = mean_geometry(scores).assign(table="Measures of the vectors")
    known = scores["aggregation"].map(AGGREGATIONS).fillna("each subset")
    names = ("Spearman x 100 (" + known + ")").where(
        scores["metric"] == "spearman", "Other metrics"
    )
    shown = pd.concat([scores.assign(table=names)[~is_space], geometry])
    main = f"Spearman x 100 ({AGGREGATIONS[main_aggregation(frame)]})"
    tables: list[Table] = []
    seen: list[pd.DataFrame] = []
    groups = dict(iter(shown.groupby("table", sort=False)))
    for name in sorted(groups, key=lambda name: name != main):
        texts = [_cell(score) for score in groups[name].itertuples()]
        table = make_table(name, groups[name].assign(text=texts), folded=True)
        values = table.text.map(lambda cell: cell.partition("\n")[0])
        if name != main and not any(map(values.equals, seen)):
            tables.append(table)
        seen.append(values)
    return tables


def _cell(score: Any) -> str:
    """A score with its interval, and its deviation over the seeds, in a second line."""
    parts = []
    if math.isfinite(score.low):
        parts.append(f"[{score.low:z.1f}, {score.high:z.1f}]")
    if math.isfinite(score.std):
        parts.append(f"±{score.std:.2f}")
    return f"{score.value:z.2f}\n{' '.join(parts)}".rstrip()


def paper_table(results: Results) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Spearman x 100 by label and task with intervals; ``use`` in the cells of the verdicts."""
    frame, keys = results.frame, ["label", "split", "task"]
    scores = summarize(frame)
    main = scores["aggregation"] == main_aggregation(frame)
    scores = scores[main & scores["metric"].eq("spearman")]
    gains = pd.DataFrame(results.about.get("gains", []), columns=[*GAIN_KEYS, "choice"])
    chosen = frame.assign(label=labels(frame)).merge(gains, on=GAIN_KEYS)
    used = chosen[chosen["choice"] == "use"].set_index(keys).index
    cells = [_cell(score).replace("\n", " ") for score in scores.itertuples()]
    choices = ["use" if key in used else "" for key in scores.set_index(keys).index]
    text, choice = (
        make_table("", scores.assign(text=each)).text for each in (cells, choices)
    )
    return text, choice


def to_markdown(results: Results) -> str:
    """The table of :func:`paper_table`, in bold what the verdicts use."""
    text, choices = paper_table(results)
    text = text.mask(choices == "use", "**" + text + "**")
    lines = [["", *text], ["---"] * (1 + text.shape[1]), *text.reset_index().values]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def styled(results: Results) -> Any:
    """The same as a Styler of pandas."""
    text, choices = paper_table(results)
    return text.style.apply(
        lambda _: choices.replace("use", "font-weight: bold"), axis=None
    )


_TARGET = "target (the sentences of each task)"


def notes(frame: pd.DataFrame) -> list[str]:
    """Notes on shared settings, symbols of the tables, and missing scores.

    Args:
        frame: Rows of results.
    """
    settings = settings_of(frame)
    settings["corpus"] = settings["corpus"].replace("target", _TARGET)
    shared = [
        f"{name} {settings[name].dropna().iloc[0]}"
        for name in settings
        if settings[name].nunique() == 1
    ]
    sample = f"{SAMPLE_TASK} is generated text: its scores say nothing about real data"
    lower = ", ".join(
        name.replace("_", " ")
        for name, metric in SPACE_METRICS.items()
        if metric.sign == -1
    )
    geometry = (
        f"{lower}: mean over the tasks; lower is better, one at the cost of the other"
    )
    main = main_aggregation(frame)
    of_subsets = ~frame["aggregation"].isin(AGGREGATIONS)
    of_subsets &= frame["metric"] == "spearman"
    shown = {
        ", ".join(shared): True,
        f"Spearman: {AGGREGATIONS[main]}": main == "all" or of_subsets.any(),
        "±: standard deviation over the seeds": frame["std"].notna().any(),
        geometry: frame["metric"].isin(SPACE_METRICS).any(),
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

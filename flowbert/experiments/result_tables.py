"""Tables of results: methods by tasks, for the terminal and for the page."""

import math
import shutil
import sys
from dataclasses import replace
from operator import attrgetter
from typing import Any

import pandas as pd

from flowbert.data.scored_pairs import SAMPLE_TASK
from flowbert.experiments.intervals import (
    GAIN_KEYS,
    LISTED,
    labels,
    main_aggregation,
    settings_of,
)
from flowbert.experiments.results import Results
from flowbert.tasks import AGGREGATIONS, AVERAGE
from flowbert.tasks.space import SPACE_METRICS
from flowbert.text_tables import Table, make_table, table_text

_OTHERS = "Other metrics"
_DETAILS = "Other metrics of the vectors"


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
    """Tables of Spearman by task and split, other metrics, other aggregations.

    Of more than ten rows, the best ten of the development split are shown, or of the only one.

    Args:
        frame: Rows of results.
    """
    scores = summarize(frame)
    if scores.empty:
        return []
    splits = list(scores["split"].unique())
    main = f"Spearman x 100 ({main_aggregation(frame)})"
    geometry = mean_geometry(scores)
    scores = scores[~scores["metric"].isin(SPACE_METRICS)]
    aggregations = scores["aggregation"]
    known = aggregations.isin(AGGREGATIONS)
    names = "Spearman x 100 (" + aggregations.where(known, "each subset") + ")"
    spearman = scores["metric"] == "spearman"
    scores = scores.assign(table=names.where(spearman, _OTHERS))
    best = _ranked(scores[scores["table"] == main])
    one_task = scores["task"][spearman].nunique() == 1 and len(best) <= LISTED
    details = [name for name, metric in SPACE_METRICS.items() if metric.is_detail]
    geometry["table"] = main if one_task else _OTHERS
    geometry.loc[geometry["metric"].isin(details), "table"] = _DETAILS
    scores = pd.concat([scores, geometry], ignore_index=True)
    tables = []
    for name, rows in scores.groupby("table", sort=False):
        texts = [score_cell(score) for score in rows.itertuples()]
        cells = rows.assign(text=texts)
        title = f"{name}, {' and '.join(splits)} split"
        table = make_table(title, cells, folded=name not in (main, _OTHERS))
        listed = [label for label in best if label in table.text.index][:LISTED]
        more = len(table.text) - len(listed)
        if more and len(best) > LISTED:
            if not table.folded:
                tables.append(replace(table, title=f"{title}, all rows", folded=True))
            table = replace(
                table,
                title=f"{title}, the best {len(listed)} on {_chooser(splits)}; {more} more",
                text=table.text.loc[listed],
            )
        tables.append(table)
    return sorted(tables, key=attrgetter("folded"))


def _chooser(splits: list[str]) -> str:
    """The split by which rows are ranked."""
    return "dev" if "dev" in splits else splits[0]


def _ranked(scores: pd.DataFrame) -> list[str]:
    """Labels by the average over the tasks, or the first task, of the split that ranks."""
    rows = scores[scores["metric"] == "spearman"]
    rows = (
        rows[rows["split"] == _chooser(list(rows["split"].unique()))]
        if len(rows)
        else rows
    )
    tasks = list(rows["task"].unique())
    task = AVERAGE if AVERAGE in tasks else next(iter(tasks), "")
    ranked = rows[rows["task"] == task].sort_values(
        "value", ascending=False, kind="stable"
    )
    return [str(label) for label in ranked["label"]]


def score_cell(score: Any) -> str:
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
    cells = [score_cell(score).replace("\n", " ") for score in scores.itertuples()]
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


def notes(frame: pd.DataFrame) -> list[str]:
    """Notes on shared settings, symbols of the tables, and missing scores.

    Args:
        frame: Rows of results.
    """
    settings = settings_of(frame)
    shared = [
        f"{name} {settings[name].dropna().iloc[0]}"
        for name in settings
        if settings[name].nunique() == 1
    ]
    sample = f"{SAMPLE_TASK} is generated text: its scores say nothing about real data"
    lower = ", ".join(
        name for name, metric in SPACE_METRICS.items() if metric.sign == -1
    )
    geometry = f"{lower}: mean over the tasks, lower is better"
    shown = {
        ", ".join(shared): True,
        "[ ]: 95% interval": frame["low"].notna().any(),
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


def print_results(results: Results) -> None:
    """Print verdicts, tables and notes; in a terminal, wide tables continue below."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    if results.verdicts:
        print("\n".join([*results.verdicts, ""]))
    for table in result_tables(results.frame):
        if not table.folded:
            print(f"{table.title}\n\n{table_text(table, width)}\n")
    print("\n".join(notes(results.frame)))

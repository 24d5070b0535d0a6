"""Rows of results: bootstrap intervals, averages over tasks, and verdicts."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from flowbert.arrays import Floats
from flowbert.experiments.estimates import (
    Verdict,
    average_seeds,
    find_intervals,
    has_interval,
)
from flowbert.experiments.labels import labels, settings_of
from flowbert.tasks import AGGREGATIONS, AVERAGE, Task

RESULT_COLUMNS: dict[str, Any] = {
    "encoder": str,
    "layers": str,
    "pooling": str,
    "method": str,
    "corpus": str,
    "seed": "Int64",
    "task": str,
    "split": str,
    "metric": str,
    "aggregation": str,
    "value": float,
    "low": float,
    "high": float,
    "std": float,
    "pairs": int,
    "supervised": bool,
    "reason": str,
    "experiment": str,
}
"""Columns of ``Results.frame`` and their types, as pandas names them."""

LISTED = 10
"""Rows that are shown and compared of a table that has more."""


def main_aggregation(frame: pd.DataFrame, metric: str = "spearman") -> str:
    """The aggregation of a metric that is shown first, and that verdicts go by.

    Args:
        frame: Rows of results.
        metric: Metric.

    Returns:
        ``wmean`` for Spearman; ``all`` for other metrics, and if the data of a task has merged
        subsets.
    """
    tasks = frame[frame["metric"] == metric]
    weighted = tasks[tasks["aggregation"] == "wmean"]
    return "wmean" if set(tasks["task"]) == set(weighted["task"]) else "all"


_ROW = ["encoder", "layers", "pooling", "split", "corpus", "method", "supervised"]
_SCORE = [*_ROW, "task", "metric", "aggregation"]
GAIN_KEYS = [*_ROW, "task", "metric"]
"""Columns of results that identify a row of ``gains`` in the metadata of results."""


def with_averages(
    frame: pd.DataFrame, draws: Floats, tasks: Sequence[Task], seed: int = 0
) -> tuple[pd.DataFrame, Floats]:
    """Rows with their intervals, followed by averages over tasks and means over several seeds.

    Args:
        frame: Rows of results, of one seed each, without averages.
        draws: Theirs, ``(n, 1 + R)``.
        tasks: The tasks.
        seed: Seed of the draws of seeds.

    Returns:
        All rows, of which those of several seeds have no seed but a standard deviation; and their
        draws.
    """
    averaged = [task.name for task in tasks if task.averaged]
    frame, draws = _concatenate((frame, draws), *_averages(frame, draws, averaged))
    groups = frame.groupby(_SCORE, sort=False).indices.values()
    pooled = []
    for rows in sorted((x for x in groups if len(x) > 1), key=lambda rows: rows[0]):
        mean, std = average_seeds(draws[rows], seed), np.std(draws[rows, 0], ddof=1)
        row = frame.iloc[rows[:1]].assign(value=mean[:, 0], std=std, **_NO_EXPERIMENT)
        pooled.append((row, mean))
    frame, draws = _concatenate((frame, draws), *pooled)
    frame[["low", "high"]] = find_intervals(draws)
    return frame[list(RESULT_COLUMNS)], draws


def _concatenate(*parts: tuple[pd.DataFrame, Floats]) -> tuple[pd.DataFrame, Floats]:
    """The rows of all parts, with their draws."""
    frames = [frame.astype(RESULT_COLUMNS) for frame, _ in parts]
    draws = np.concatenate([draws for _, draws in parts])
    return pd.concat(frames, ignore_index=True), draws


def _averages(
    frame: pd.DataFrame, draws: Floats, tasks: Sequence[str]
) -> Iterator[tuple[pd.DataFrame, Floats]]:
    """The average over the tasks of a split by seed, for methods with a score on each of them."""
    is_averaged = (frame["metric"] == "spearman") & frame["task"].isin(tasks)
    chosen = frame[is_averaged & frame["aggregation"].isin(AGGREGATIONS)]
    counts = chosen.groupby(["split", "aggregation"])["task"].transform("nunique")
    for _, same in chosen[counts > 1].groupby([*_ROW, "aggregation"], sort=False):
        for seed in list(same["seed"].dropna().unique()) or [None]:
            # What draws nothing on a task is the same for all seeds.
            own = same[same["seed"].isna() | (same["seed"] == seed)]
            if len(own) == counts[own.index[0]]:
                mean = draws[own.index].mean(axis=0, keepdims=True)
                changed = _NO_EXPERIMENT | {"task": AVERAGE, "seed": seed}
                changed |= {"value": mean[:, 0], "pairs": own["pairs"].sum()}
                yield own.iloc[:1].assign(**changed), mean


_NO_EXPERIMENT: dict[str, Any] = {"experiment": "", "reason": "", "seed": None}


def find_verdicts(
    frame: pd.DataFrame, draws: Floats, tasks: Sequence[Task]
) -> dict[str, Any]:
    """Which row to use, over all rows of a table, whatever differs in them.

    There is one verdict for the average, or the only averaged task, and for every other task with
    a headline, on each split. Of more than ten rows, the best ten of the development split and the
    raw embeddings are compared, on the other splits.

    Args:
        frame: Rows of :func:`with_averages`.
        draws: Theirs, ``(n, 1 + R)``.
        tasks: The tasks.

    Returns:
        ``verdicts``: lines, for all encoders together and for each. ``gains``: a row for each
        compared row of an encoder, see :meth:`~flowbert.experiments.estimates.Verdict.gains`, with
        the columns :data:`GAIN_KEYS`. By title, ``differences``: ``methods``, and ``cells``, a
        text for row minus column of any two.
    """
    averaged = {task.name for task in tasks if task.averaged}
    deciding = [
        (AVERAGE if task.averaged and len(averaged) > 1 else task.name, task.headline)
        for task in sorted(tasks, key=lambda task: not task.averaged)
        if task.headline
    ]
    kept = has_interval(draws) & ~frame.duplicated(_SCORE, keep="last")
    kept &= frame["encoder"] != "none"  # references are no methods
    first = frame.groupby(_SCORE, sort=False).ngroup()[kept].sort_values(kind="stable")
    rows = frame.loc[first.index]
    tables = []
    for name, metric in dict.fromkeys(deciding):
        decides = (rows["task"] == name) & (rows["metric"] == metric)
        decides &= rows["aggregation"] == main_aggregation(rows, metric)
        tables += [
            (f"{name} {metric}, {split}", table, note)
            for split, table, note in _tables(rows[decides])
            if len(table) > 1
        ]
    lines: list[str] = []
    gains: list[dict[str, Any]] = []
    differences = {}
    for title, table, note in tables:
        whole = _verdict(table, draws)
        differences[title] = {"methods": whole.names, "cells": whole.table}
        where = f" on {title}" if len(tables) > 1 else ""
        encoders = settings_of(table)["encoder"]
        if encoders.nunique() > 1:
            lines.append(f"all encoders{where}: {whole.text}")
        for name in encoders.unique():
            mine = table[encoders == name]
            if len(mine) > 1:
                part = _verdict(mine, draws)
                lines.append(f"{name}{where}: {part.text}")
                rows_with_gains = (
                    mine[GAIN_KEYS].reset_index(drop=True).join(part.gains)
                )
                gains += rows_with_gains.to_dict("records")
        lines += [f"{note}{where}"] if note else []
    return {"verdicts": lines, "gains": gains, "differences": differences}


def _tables(rows: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame, str]]:
    """Split, rows and a word on their selection, of the scores of one task."""
    splits = list(rows["split"].unique())
    for split in splits:
        table = rows[rows["split"] == split]
        if len(table) <= LISTED:
            yield split, table, ""
            continue
        chooser = "dev" if "dev" in splits else split
        if split == chooser and len(splits) > 1:
            continue
        scores = rows[rows["split"] == chooser].set_index(_READ)["value"]
        ranks = table[_READ].apply(tuple, axis=1).map(scores.to_dict())
        best = ranks.sort_values(ascending=False, kind="stable").index[:LISTED]
        raw = table.index[table["method"] == "raw"].difference(best)
        note = f"Of {len(table)} rows the best {LISTED} on {chooser} were compared"
        if chooser == split:
            note += (
                "; the one to use was chosen on the same pairs, its score is too high"
            )
        yield split, table.loc[[*raw, *best]], note


_READ = [name for name in _ROW if name != "split"]


def _verdict(rows: pd.DataFrame, draws: Floats) -> Verdict:
    """The verdict over some rows, of which the others have to beat the first raw one."""
    base = int((rows["method"] == "raw").to_numpy().argmax())
    return Verdict(labels(rows).tolist(), draws[rows.index], base)

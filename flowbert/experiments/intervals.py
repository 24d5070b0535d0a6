"""Columns of results, their bootstrap intervals, averages over tasks, differences, verdicts."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from flowbert.analysis.table import short_names
from flowbert.arrays import Floats
from flowbert.experiments.estimates import Comparison, Estimates, concatenate
from flowbert.experiments.plan import ADVISED
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
    "pairs": int,
    "supervised": bool,
    "reason": str,
    "experiment": str,
}
"""Columns of ``Results.frame`` and their types, as pandas names them."""

UNFITTED = ("none", "given")
"""Corpora of what is not fitted here: it is compared under every corpus."""


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


Items = Mapping[Task, Mapping[str, Floats]]
"""Items ``(K,)`` of the experiments on each task, by their keys."""

_COMPARED = ["encoder", "layers", "pooling", "split", "corpus", "method", "supervised"]


def estimate_rows(
    frame: pd.DataFrame, items: Items, resamples: int, seed: int
) -> Estimates:
    """The bootstrap estimate of each row.

    What is measured on one task shares its resamples, so that any two can be compared.

    Args:
        frame: Rows of results.
        items: Items of their experiments; those of a row that has none are not resampled.
        resamples: Number of resamples R; of 0, a single one that is missing.
        seed: Seed.
    """
    drawn: dict[tuple[str, ...], Floats] = {}
    for task, of_task in items.items():
        finite = {key: row for key, row in of_task.items() if np.isfinite(row).all()}
        if resamples and finite:
            for metric, scores in task.resample(finite, resamples, seed).items():
                for key, row in zip(finite, scores, strict=True):
                    drawn[key, *metric] = row
    replicates: Floats = np.full((len(frame), max(resamples, 1)), np.nan)
    keys = frame[["experiment", "metric", "aggregation"]].itertuples(index=False)
    for row, key in zip(replicates, keys, strict=True):
        row[:] = drawn.get(tuple(key), np.nan)
    return Estimates(frame["value"].to_numpy(np.float64), replicates)


def with_averages(
    frame: pd.DataFrame, estimates: Estimates, tasks: Sequence[Task]
) -> tuple[pd.DataFrame, dict[str, Comparison]]:
    """Rows with their intervals and those of averages over tasks, and what verdicts are about.

    Args:
        frame: Rows of results, without averages.
        estimates: Theirs.
        tasks: The tasks.

    Returns:
        All rows; and by title what is compared.
    """
    keys = [*_COMPARED, "task", "metric", "aggregation"]
    over_seeds, of_seeds = _pool(frame, estimates, keys, "max")
    averaged = [task.name for task in tasks if task.averaged]
    averages, of_averages = _averages(over_seeds, of_seeds, averaged)
    whole = _below(frame, averages)
    whole[["low", "high"]] = concatenate(estimates, of_averages).intervals
    rows = _below(over_seeds, averages)
    compared = dict(_comparisons(rows, concatenate(of_seeds, of_averages), tasks))
    return whole[list(RESULT_COLUMNS)].astype(RESULT_COLUMNS), compared


def _below(frame: pd.DataFrame, averages: pd.DataFrame) -> pd.DataFrame:
    """Rows of both; pandas 2 warns of a part without any."""
    parts = [part for part in (frame, averages) if len(part)]
    return pd.concat(parts or [frame], ignore_index=True)


def _pool(
    frame: pd.DataFrame, estimates: Estimates, keys: list[str], pairs: str
) -> tuple[pd.DataFrame, Estimates]:
    """One row per group: the mean of its estimates; sum or maximum of its pairs."""
    groups = frame.groupby(keys, sort=False)
    pooled = groups.agg(pairs=("pairs", pairs)).reset_index()
    numbers = groups.ngroup().to_numpy()
    means = [estimates[numbers == number].mean() for number in range(len(pooled))]
    of_groups = concatenate(*means) if means else estimates[:0]
    return pooled.assign(value=of_groups.values), of_groups


def _averages(
    pooled: pd.DataFrame, estimates: Estimates, tasks: Sequence[str]
) -> tuple[pd.DataFrame, Estimates]:
    """The average over the tasks of a split, for methods with a score on each of them."""
    of_tasks = (pooled["metric"] == "spearman") & pooled["task"].isin(tasks)
    chosen = pooled[of_tasks & pooled["aggregation"].isin(AGGREGATIONS)]
    frames, parts = [chosen[:0]], [estimates[:0]]
    for _, same in chosen.groupby(["aggregation", "split"], sort=False):
        count = same["task"].nunique()
        complete = same[same.groupby(_COMPARED)["task"].transform("size") == count]
        if count > 1 and len(complete):
            own = estimates[complete.index.to_numpy()]
            frame, means = _pool(complete, own, [*_COMPARED, "aggregation"], "sum")
            frames.append(frame)
            parts.append(means)
    constant: dict[str, Any] = {"task": AVERAGE, "metric": "spearman", "seed": None}
    averages = pd.concat(frames).assign(**constant, reason="", experiment="")
    return averages, concatenate(*parts)


def _comparisons(
    rows: pd.DataFrame, estimates: Estimates, tasks: Sequence[Task]
) -> Iterator[tuple[str, Comparison]]:
    """Comparisons by title: the average, or the only averaged task; then every other task."""
    averaged = {task.name for task in tasks if task.averaged}
    deciding = {
        (
            AVERAGE if task.averaged and len(averaged) > 1 else task.name,
            task.headline,
        ): None
        for task in sorted(tasks, key=lambda task: not task.averaged)
        if task.headline
    }
    rows = rows[estimates.exist]
    rows = rows[rows["encoder"] != "none"]  # references are no methods
    rows = rows.assign(encoder=rows["encoder"].map(short_names(rows["encoder"])))
    for name, metric in deciding:
        chosen = rows[(rows["task"] == name) & (rows["metric"] == metric)]
        chosen = chosen[chosen["aggregation"] == main_aggregation(rows, metric)]
        title = f"{name} {metric}"
        everywhere = _under_every_setting(_under_every_corpus(chosen))
        for names, own in (
            *_compared(everywhere, "method", "encoder", title),
            *_compared(chosen, "encoder", "method", f"{title}, best encoder"),
        ):
            yield names, Comparison(list(own), estimates[list(own.values())])


def _under_every_corpus(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows with what is not fitted here repeated under every corpus."""
    fitted = ~rows["corpus"].isin(UNFITTED)
    corpora = rows["corpus"][fitted].unique()
    if not len(corpora):
        return rows.assign(corpus="none")
    parts = [
        rows[~fitted | (rows["corpus"] == corpus)].assign(corpus=f"corpus {corpus}")
        for corpus in corpora
    ]
    return pd.concat(parts).sort_index(kind="stable")


def _under_every_setting(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows with what is advised, whose layers and pooling are advised too, under all others."""
    advised = rows["method"].str.startswith(f"{ADVISED}: ")
    settings = rows[~advised].drop_duplicates(["encoder", "layers", "pooling"])
    parts = [rows[~advised] if len(settings) else rows]
    for encoder, layers, pooling in settings[["encoder", "layers", "pooling"]].values:
        own = rows[advised & (rows["encoder"] == encoder)]
        parts.append(own.assign(layers=layers, pooling=pooling))
    return pd.concat(parts).sort_index(kind="stable")


def _compared(
    rows: pd.DataFrame, column: str, other: str, title: str
) -> Iterator[tuple[str, dict[str, int]]]:
    """By title, the rows of methods, or encoders, that are compared, all else equal."""
    shared = [other, "layers", "pooling", "split", "corpus"]
    varying = [rows[name].nunique() > 1 for name in shared]
    for values, own in rows.groupby(shared, sort=False):
        if len(own) > 1:
            differing = itertools.compress(values, varying)
            parts = [title, *(value for value in differing if value not in UNFITTED)]
            yield ", ".join(parts), dict(zip(own[column], own.index, strict=True))

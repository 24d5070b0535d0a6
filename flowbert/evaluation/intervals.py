"""Confidence intervals, averages over tasks and verdicts of a comparison."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from flowbert.evaluation.estimates import Estimate, average, verdict
from flowbert.evaluation.results import AGGREGATION, AVERAGE, COLUMNS, Results
from flowbert.tasks import AGGREGATIONS, Task

EVERYWHERE = ("none", "given")
"""Corpora of methods that are not fitted here: they are compared under every corpus."""

_METHOD = ["encoder", "layers", "pooling", "split", "corpus", "method", "supervised"]


@dataclass(frozen=True)
class Comparison:
    """Methods, or encoders, on the same resamples."""

    title: str
    estimates: dict[str, Estimate]

    def verdict(self) -> str:
        """Which of them to use, in one line."""
        return f"{self.title}: {verdict(self.estimates)}"

    def differences(self) -> list[list[str]]:
        """Row minus column of any two, with the interval."""
        return [
            [
                "" if first is second else (first - second).text()
                for second in self.estimates.values()
            ]
            for first in self.estimates.values()
        ]


def add_intervals(
    results: Results, tasks: Sequence[Task], resamples: int = 1000, seed: int = 0
) -> None:
    """Bootstrap every cell; add intervals, averages over tasks, differences and verdicts.

    Methods on one task share their resamples, so that any two of them can be compared.

    Args:
        results: Results whose :attr:`Results.items` hold each cell.
        tasks: The measured tasks.
        resamples: Number of resamples; 0 for none, and no verdict.
        seed: Seed.
    """
    frame = results.frame
    frame["estimate"] = estimate_rows(results, tasks, resamples, seed)
    pooled = _pool_seeds(frame)
    averages = _averages(pooled, [task.name for task in tasks if task.averaged])
    frame = pd.concat([frame, averages], ignore_index=True)
    intervals = [estimate.interval for estimate in frame["estimate"]]
    frame[["low", "high"]] = np.array(intervals).reshape(-1, 2)
    results.frame = frame[list(COLUMNS)].infer_objects()
    rows = pd.concat([pooled, averages], ignore_index=True)
    comparisons = list(_comparisons(rows, tasks)) if resamples else []
    results.record |= {
        "verdicts": [comparison.verdict() for comparison in comparisons],
        "differences": {
            comparison.title: {
                "methods": list(comparison.estimates),
                "cells": comparison.differences(),
            }
            for comparison in comparisons
        },
        "bootstrap": {"resamples": resamples, "seed": seed},
    }


def estimate_rows(
    results: Results, tasks: Sequence[Task], resamples: int, seed: int
) -> list[Estimate]:
    """The bootstrap estimate of each row of the frame, see :func:`add_intervals`."""
    frame = results.frame
    replicates = {}
    for task in tasks if resamples else ():
        metrics = {metric for metric, _ in task.metrics}
        own = frame[(frame["task"] == task.name) & (frame["split"] == task.split)]
        cells = own[own["metric"].isin(metrics)]["cell"]
        items = {cell: results.items[cell] for cell in cells}
        items = {cell: row for cell, row in items.items() if np.isfinite(row).all()}
        if items:
            for metric, values in task.resample(items, resamples, seed).items():
                for cell, row in zip(items, values, strict=True):
                    replicates[cell, *metric] = row
    missing = np.full(max(resamples, 1), np.nan)
    columns = ("cell", "metric", "aggregation", "value")
    return [
        Estimate(value, replicates.get(tuple(key), missing))
        for *key, value in zip(*(frame[name] for name in columns), strict=True)
    ]


def _pool_seeds(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per method, task and metric: the mean over the seeds."""
    keys = [*_METHOD, "task", "metric", "aggregation"]
    rows = []
    for values, own in frame.groupby(keys, sort=False):
        estimate = average(list(own["estimate"]))
        rows.append([*values, estimate, estimate.value, own["pairs"].max()])
    return pd.DataFrame(rows, columns=[*keys, "estimate", "value", "pairs"])


def _averages(pooled: pd.DataFrame, tasks: Sequence[str]) -> pd.DataFrame:
    """The average over the tasks of a split, for methods with a figure on each of them."""
    rows = []
    chosen = pooled[(pooled["metric"] == "spearman") & pooled["task"].isin(tasks)]
    chosen = chosen[chosen["aggregation"].isin(AGGREGATIONS)]
    for (aggregation, _), same in chosen.groupby(["aggregation", "split"], sort=False):
        count = same["task"].nunique()
        for values, own in same.groupby(_METHOD, sort=False):
            if count < 2 or len(own) < count:
                continue
            estimate = average(list(own["estimate"]))
            rows.append(
                {
                    **dict.fromkeys(COLUMNS, ""),
                    **dict(zip(_METHOD, values, strict=True)),
                    "seed": None,
                    "task": AVERAGE,
                    "metric": "spearman",
                    "aggregation": aggregation,
                    "value": estimate.value,
                    "pairs": int(own["pairs"].sum()),
                    "estimate": estimate,
                }
            )
    return pd.DataFrame(rows, columns=[*COLUMNS, "estimate"])


def _comparisons(rows: pd.DataFrame, tasks: Sequence[Task]) -> Iterator[Comparison]:
    """What verdicts are about: the average, or the only averaged task; then every other task."""
    averaged = [task.name for task in tasks if task.averaged]
    deciding = [
        (AVERAGE if len(set(averaged)) > 1 else name, "spearman")
        for name in averaged[:1]
    ]
    deciding += [
        (task.name, task.headline)
        for task in tasks
        if not task.averaged and task.headline
    ]
    for name, metric in deciding:
        chosen = rows[(rows["task"] == name) & (rows["metric"] == metric)]
        chosen = chosen[chosen["aggregation"].isin([AGGREGATION, "all"])]
        if metric == "spearman":
            chosen = chosen[chosen["aggregation"] == AGGREGATION]
        chosen = chosen[[estimate.exists for estimate in chosen["estimate"]]]
        chosen = chosen[chosen["encoder"] != "none"]  # references are no methods
        yield from _of_methods(chosen, f"{name} {metric}")
        yield from _of_encoders(chosen, f"{name} {metric}")


def _of_methods(rows: pd.DataFrame, title: str) -> Iterator[Comparison]:
    shared = ["encoder", "layers", "pooling", "split"]
    varying = [column for column in shared if rows[column].nunique() > 1]
    corpora = [corpus for corpus in rows["corpus"].unique() if corpus not in EVERYWHERE]
    for values, own in rows.groupby(shared, sort=False):
        labels = dict(zip(shared, values, strict=True))
        for corpus in corpora or ["none"]:
            chosen = own[own["corpus"].isin([corpus, *EVERYWHERE])]
            if len(chosen) > 1:
                parts = [title, *(labels[column] for column in varying)]
                parts += [f"corpus {corpus}"] if len(corpora) > 1 else []
                yield Comparison(
                    ", ".join(parts),
                    dict(zip(chosen["method"], chosen["estimate"], strict=True)),
                )


def _of_encoders(rows: pd.DataFrame, title: str) -> Iterator[Comparison]:
    """One method on several encoders, all else equal."""
    shared = ["method", "layers", "pooling", "split", "corpus"]
    varying = [column for column in shared if rows[column].nunique() > 1]
    for values, own in rows.groupby(shared, sort=False):
        if own["encoder"].nunique() > 1:
            labels = dict(zip(shared, values, strict=True))
            parts = [title, "between encoders", *(labels[column] for column in varying)]
            yield Comparison(
                ", ".join(parts),
                dict(zip(own["encoder"], own["estimate"], strict=True)),
            )

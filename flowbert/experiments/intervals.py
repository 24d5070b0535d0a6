"""Confidence intervals, averages over tasks and verdicts of a comparison."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from flowbert.experiments.estimates import Estimate, average, differences, verdict
from flowbert.experiments.results import COLUMNS, Results, aggregation_of
from flowbert.tasks import AGGREGATIONS, AVERAGE, Task

EVERYWHERE = ("none", "given")
"""Corpora of methods that are not fitted here: they are compared under every corpus."""

_METHOD = ["encoder", "layers", "pooling", "split", "corpus", "method", "supervised"]


def add_intervals(results: Results, resamples: int = 1000, seed: int = 0) -> None:
    """Bootstrap every experiment; add intervals, averages over tasks, differences and verdicts.

    Methods on one task share their resamples, so that any two of them can be compared.

    Args:
        results: Results whose :attr:`Results.items` hold each experiment.
        resamples: Number of resamples; 0 for none, and no verdict.
        seed: Seed.
    """
    frame = results.frame
    frame["estimate"] = estimate_rows(results, resamples, seed)
    pooled = _pool(frame, [*_METHOD, "task", "metric", "aggregation"], "max")
    tasks = list(results.items)
    averages = _averages(pooled, [task.name for task in tasks if task.averaged])
    frame = _below(frame, averages)
    intervals = [estimate.interval for estimate in frame["estimate"]]
    frame[["low", "high"]] = np.array(intervals).reshape(-1, 2)
    results.frame = frame[list(COLUMNS)].infer_objects()
    rows = _below(pooled, averages)
    comparisons = dict(_comparisons(rows, tasks)) if resamples else {}
    results.record |= {
        "verdicts": [
            f"{title}: {verdict(estimates)}" for title, estimates in comparisons.items()
        ],
        "differences": {
            title: {"methods": list(estimates), "cells": differences(estimates)}
            for title, estimates in comparisons.items()
        },
        "bootstrap": {"resamples": resamples, "seed": seed},
    }


def _below(frame: pd.DataFrame, averages: pd.DataFrame) -> pd.DataFrame:
    """Rows of both; pandas 2 warns of a part without any."""
    parts = [part for part in (frame, averages) if len(part)]
    return pd.concat(parts or [frame], ignore_index=True)


def estimate_rows(results: Results, resamples: int, seed: int) -> list[Estimate]:
    """The bootstrap estimate of each row of the frame, see :func:`add_intervals`."""
    replicates = {}
    for task, items in results.items.items():
        finite = {
            experiment: row
            for experiment, row in items.items()
            if np.isfinite(row).all()
        }
        if resamples and finite:
            for metric, values in task.resample(finite, resamples, seed).items():
                for experiment, row in zip(finite, values, strict=True):
                    replicates[experiment, *metric] = row
    missing = np.full(max(resamples, 1), np.nan)
    rows = results.frame[["experiment", "metric", "aggregation", "value"]]
    return [
        Estimate(value, replicates.get(tuple(key), missing))
        for *key, value in rows.itertuples(index=False)
    ]


def _pool(frame: pd.DataFrame, keys: list[str], pairs: str) -> pd.DataFrame:
    """One row per group: the average of its estimates; sum or maximum of its pairs."""
    groups = frame.groupby(keys, sort=False)
    pooled = groups.agg(estimate=("estimate", average), pairs=("pairs", pairs))
    values = [estimate.value for estimate in pooled["estimate"]]
    return pooled.assign(value=values).reset_index()


def _averages(pooled: pd.DataFrame, tasks: Sequence[str]) -> pd.DataFrame:
    """The average over the tasks of a split, for methods with a figure on each of them."""
    chosen = pooled[(pooled["metric"] == "spearman") & pooled["task"].isin(tasks)]
    chosen = chosen[chosen["aggregation"].isin(AGGREGATIONS)]
    averages = [chosen[:0]]
    for _, same in chosen.groupby(["aggregation", "split"], sort=False):
        count = same["task"].nunique()
        complete = same[same.groupby(_METHOD)["task"].transform("size") == count]
        if count > 1 and len(complete):
            averages.append(_pool(complete, [*_METHOD, "aggregation"], "sum"))
    constant: dict[str, Any] = {"task": AVERAGE, "metric": "spearman", "seed": None}
    return pd.concat(averages).assign(**constant, reason="", experiment="")


def _comparisons(
    rows: pd.DataFrame, tasks: Sequence[Task]
) -> Iterator[tuple[str, dict[str, Estimate]]]:
    """What verdicts are about: the average, or the only averaged task; then every other task."""
    averaged = {task.name for task in tasks if task.averaged}
    deciding = {
        (
            AVERAGE if task.averaged and len(averaged) > 1 else task.name,
            task.headline,
        ): None
        for task in sorted(tasks, key=lambda task: not task.averaged)
        if task.headline
    }
    for name, metric in deciding:
        chosen = rows[(rows["task"] == name) & (rows["metric"] == metric)]
        chosen = chosen[chosen["aggregation"] == aggregation_of(metric)]
        chosen = chosen[[estimate.exists for estimate in chosen["estimate"]]]
        chosen = chosen[chosen["encoder"] != "none"]  # references are no methods
        title = f"{name} {metric}"
        yield from _compared(_under_every_corpus(chosen), "method", "encoder", title)
        title += ", between encoders"
        yield from _compared(chosen, "encoder", "method", title)


def _under_every_corpus(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows with what is not fitted here repeated under every corpus."""
    fitted = ~rows["corpus"].isin(EVERYWHERE)
    corpora = rows["corpus"][fitted].unique()
    if not len(corpora):
        return rows.assign(corpus="none")
    parts = [
        rows[~fitted | (rows["corpus"] == corpus)].assign(corpus=f"corpus {corpus}")
        for corpus in corpora
    ]
    return pd.concat(parts).sort_index(kind="stable")


def _compared(
    rows: pd.DataFrame, column: str, other: str, title: str
) -> Iterator[tuple[str, dict[str, Estimate]]]:
    """Methods, or encoders, on the same resamples, all else equal."""
    shared = [other, "layers", "pooling", "split", "corpus"]
    varying = [rows[name].nunique() > 1 for name in shared]
    for values, own in rows.groupby(shared, sort=False):
        if len(own) > 1:
            parts = [title, *itertools.compress(values, varying)]
            estimates = zip(own[column], own["estimate"], strict=True)
            yield ", ".join(parts), dict(estimates)

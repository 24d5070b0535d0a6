"""Rows of results with bootstrap intervals, averages over tasks and means over seeds.

Draws ``(n, 1 + R)`` are n scores, each followed by its values on R resamples; undefined ones are
NaN. All rows share the resamples, so that differences and means of rows can be taken draw by draw.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from flowbert.arrays import Floats
from flowbert.seeding import Stream
from flowbert.tasks import AGGREGATIONS, AVERAGE, Task

RESULT_COLUMNS: dict[str, Any] = {
    "encoder": str,
    "template": str,
    "sink_token": str,
    "layers": str,
    "pooling": str,
    "method": str,
    "role": str,
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
    "gain": float,
    "gain_low": float,
    "gain_high": float,
    "choice": str,
    "pairs": int,
    "supervised": bool,
    "reason": str,
    "experiment": str,
}
"""Columns of ``Results.frame``, and their pandas types."""

SETTINGS = ["encoder", "template", "sink_token", "layers", "pooling", "corpus"]
METHOD = [*SETTINGS, "method", "role", "supervised"]
SCORE = [*METHOD, "split", "task", "metric", "aggregation"]
"""Columns that identify a score apart from its seed."""

GAIN = ["gain", "gain_low", "gain_high"]
"""Columns of a scaled score minus the reference, with its interval."""

_TAIL = (1 - 0.95) / 2


def has_interval(draws: Floats) -> Any:
    """Whether a row has a score and at least one resampled score, ``(n,)``."""
    is_finite = np.isfinite(draws)
    return is_finite[:, 0] & is_finite[:, 1:].any(axis=1)


def find_intervals(draws: Floats) -> Floats:
    r"""Ends of the 95% intervals, ``(n, 2)``; NaN without a score or resamples.

    Percentiles of the resamples, minus twice the estimated bias: Spearman's correlation of few
    pairs is too small on average, so that a score has the bias b, and its resamples the bias 2 b.
    An interval contains its score. ``tests/experiments/test_coverage.py`` simulates the coverage.

    Args:
        draws: Draws ``(n, 1 + R)``.

    References:
        An Introduction to the Bootstrap (Efron and Tibshirani, 1993), chapters 10 and 13.

    Example:
        >>> find_intervals(np.array([[0.5, *np.linspace(0.4, 0.6, 201)]])).round(3).tolist()
        [[0.405, 0.595]]
    """
    ends: Floats = np.full((len(draws), 2), np.nan)
    for row in np.flatnonzero(has_interval(draws)):
        finite = draws[row][np.isfinite(draws[row])]
        value, drawn = finite[0], finite[1:]
        bias = drawn.mean() - value
        low, high = np.quantile(drawn, [_TAIL, 1 - _TAIL]) - 2 * bias
        ends[row] = min(low, value), max(high, value)
        if np.abs(finite).max() <= 1:  # as correlations and shares
            ends[row] = ends[row].clip(-1, 1)
    return ends


def average_seeds(draws: Floats, seed: int) -> Floats:
    """The mean over seeds ``(1 + R,)``, resampled over seeds and pairs.

    Deviations of the drawn seeds are multiplied by the root of n / (n - 1), so that the variance of
    their mean has no bias.

    Args:
        draws: Draws ``(n, 1 + R)``.
        seed: Seed of the draws; rows with equally many seeds share them, so that averages and
            differences use the same seeds.
    """
    count, resamples = draws[:, 1:].shape
    rng = Stream(seed, "seeds", batch=count).rng()
    drawn = rng.multinomial(count, [1 / count] * count, size=resamples)
    deviations = (drawn / count - 1 / count) * math.sqrt(count / (count - 1))
    weights = 1 / count + deviations.T
    mean: Floats = draws.mean(axis=0)
    mean[1:] = (weights * draws[:, 1:]).sum(axis=0)
    return mean


def main_aggregation(frame: pd.DataFrame, metric: str = "spearman") -> str:
    """The aggregation of a metric that tables show first and verdicts use.

    Args:
        frame: Rows of results.
        metric: Metric.

    Returns:
        ``wmean`` for Spearman; ``all`` for other metrics, and if the data of a task has merged
        subsets; without these, the first one.
    """
    tasks = frame[frame["metric"] == metric]
    weighted = tasks[tasks["aggregation"] == "wmean"]
    if set(tasks["task"]) == set(weighted["task"]):
        return "wmean"
    known = [*tasks["aggregation"].unique()]
    return "all" if "all" in known else str(known[0])


def with_averages(
    frame: pd.DataFrame, tasks: Sequence[Task], seed: int = 0
) -> pd.DataFrame:
    """Rows with their intervals, followed by averages over tasks and means over several seeds.

    Args:
        frame: Rows of results, of one seed each, without averages. A column ``draws`` has the
            draws ``(1 + R,)`` of each row.
        tasks: The tasks.
        seed: Seed of the draws of seeds.

    Returns:
        All rows. Rows for several seeds have a standard deviation and no seed.
    """
    averaged = [task.name for task in tasks if task.averaged]
    frame = _append(frame, _average_tasks(frame, averaged))
    frame = _append(frame, _average_seeds(frame, seed))
    frame[["low", "high"]] = find_intervals(draws_of(frame))
    return frame


def draws_of(rows: pd.DataFrame) -> Floats:
    """Draws of rows of results, ``(n, 1 + R)``."""
    draws: Floats = np.stack(rows["draws"])
    return draws


def _append(frame: pd.DataFrame, rows: Iterable[dict[str, Any]]) -> pd.DataFrame:
    """Append rows."""
    added = list(rows)
    if not added:
        return frame
    below = pd.DataFrame(added).astype(RESULT_COLUMNS)
    return pd.concat([frame, below], ignore_index=True)


def _average_tasks(
    frame: pd.DataFrame, tasks: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Average over the tasks of a split, by seed, of methods with a score on every task."""
    is_averaged = (frame["metric"] == "spearman") & frame["task"].isin(tasks)
    scores = frame[is_averaged & frame["aggregation"].isin(AGGREGATIONS)]
    counts = scores.groupby(["split", "aggregation"])["task"].transform("nunique")
    keys = [*METHOD, "split", "aggregation"]
    for _, of_method in scores[counts > 1].groupby(keys, sort=False):
        seeds = list(of_method["seed"].dropna().unique())
        for seed in seeds or [None]:
            # A score without a seed is the same for all seeds.
            is_seed = of_method["seed"].isna() | (of_method["seed"] == seed)
            rows = of_method[is_seed]
            if len(rows) < counts[rows.index[0]]:
                continue
            average = _averaged(rows, draws_of(rows).mean(axis=0))
            pairs = rows["pairs"].sum()
            yield average | {"task": AVERAGE, "pairs": pairs, "seed": seed}


def _average_seeds(frame: pd.DataFrame, seed: int) -> Iterator[dict[str, Any]]:
    """Mean over the seeds, of scores with several seeds."""
    for _, rows in frame.groupby(SCORE, sort=False):
        if len(rows) > 1:
            mean = average_seeds(draws_of(rows), seed)
            deviation = np.std(rows["value"].to_numpy(), ddof=1)
            yield _averaged(rows, mean) | {"std": deviation}


def _averaged(rows: pd.DataFrame, mean: Floats) -> dict[str, Any]:
    """The row of results for the mean of several rows."""
    row: dict[str, Any] = rows.iloc[0].to_dict()
    changed = {"experiment": "", "reason": "", "seed": None}
    return row | changed | {"value": mean[0], "draws": mean}

"""Columns of results, and the main aggregation of their tables."""

from typing import Any

import pandas as pd

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

"""Columns of results, and what stands first in their tables."""

from typing import Any

RESULT_COLUMNS: dict[str, Any] = {
    "encoder": str,
    "layers": str,
    "pooling": str,
    "method": str,
    "corpus": str,
    "seed": int | None,
    "task": str,
    "split": str,
    "metric": str,
    "aggregation": str,
    "value": float | None,
    "low": float | None,
    "high": float | None,
    "pairs": int,
    "supervised": bool,
    "reason": str,
    "experiment": str,
}
"""Columns of ``Results.frame`` and their types."""

UNFITTED = ("none", "given")
"""Corpora of what is not fitted here: it is compared under every corpus."""

AGGREGATION = "wmean"
"""The aggregation that is shown first, and that verdicts go by."""


def aggregation_of(metric: str) -> str:
    """The aggregation of a metric that is shown first."""
    return AGGREGATION if metric == "spearman" else "all"

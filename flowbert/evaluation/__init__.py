"""Evaluation by one protocol: cosine, Spearman, three aggregations that are always named."""

from flowbert.evaluation.comparison import Method, compare, fit_on
from flowbert.evaluation.protocol import (
    Aggregates,
    PairEmbeddings,
    SubsetFigures,
    SubsetPairs,
    TaskFigures,
    aggregate,
    embed_pairs,
    evaluate_pairs,
    evaluate_task,
    similarities,
)
from flowbert.evaluation.results import Row, fingerprint, load_results, rows_of, write_results

__all__ = [
    "Aggregates",
    "Method",
    "PairEmbeddings",
    "Row",
    "SubsetFigures",
    "SubsetPairs",
    "TaskFigures",
    "aggregate",
    "compare",
    "embed_pairs",
    "evaluate_pairs",
    "evaluate_task",
    "fingerprint",
    "fit_on",
    "load_results",
    "rows_of",
    "similarities",
    "write_results",
]

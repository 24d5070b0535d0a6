"""The analysis of a comparison: a sample of vectors, and cosines by gold score."""

from typing import Any

import numpy as np

from flowbert.analysis import Analysis
from flowbert.analysis.vectors import analyze_vectors
from flowbert.experiments.results import Results
from flowbert.tasks import AVERAGE, STS

FEWEST = 11
"""Sentences: with fewer, no ten neighbours exist."""

_SETTING = ("encoder", "layers", "pooling", "corpus")


def analyze_results(results: Results, **parts: Any) -> Analysis:
    """Measure what a comparison in this process kept of its vectors.

    Each method stands with its first encoder, corpus and seed.

    Args:
        results: The results.
        **parts: Further arguments of :func:`flowbert.analysis.vectors.analyze_vectors`.
    """
    measured = results.frame[results.frame["metric"] == STS.headline]
    measured = measured[measured["task"] != AVERAGE]
    measured = measured.drop_duplicates(["task", "split", "method"])
    pairs = {}
    for task, items in results.items.items():
        if isinstance(task, STS):
            own = measured[measured["experiment"].isin(list(items))]
            cosines = {
                method: items[experiment]
                for method, experiment in zip(
                    own["method"], own["experiment"], strict=True
                )
                if np.isfinite(items[experiment]).all()
            }
            pairs[f"{task.name} {task.split}"] = task.gold, cosines
    setting = {}
    for name in _SETTING:
        values = [value for value in measured[name].unique() if value != "none"]
        setting[name] = ", ".join(values) or "none"
    vectors = {
        method: rows
        for method, rows in results.vectors.items()
        if rows.shape[1] > 1 and bool(rows.isfinite().all())
    }
    sentences = results.sentences if len(results.sentences) >= FEWEST else []
    if not sentences:
        vectors = {}
    return analyze_vectors(sentences, vectors, setting=setting, pairs=pairs, **parts)

"""Paired bootstrap over queries: how sure recall and MRR, or a difference of two methods, are."""

import numpy as np

from flowbert.tasks.bootstrap import Replicates
from flowbert.tasks.pairs import ScoredPairs
from flowbert.tasks.resampling import blocks, check_resampling
from flowbert.tasks.unit_bootstrap import by_metric, unit_means


def bootstrap_retrieval(pairs: ScoredPairs, *, resamples: int = 1000, seed: int = 0) -> dict[str, Replicates]:
    """Resample queries with replacement; a figure is the mean of its queries' values.

    All methods and metrics see the same resamples. The documents stay as they are: what is drawn again is what was
    asked, not what there is to find.

    References:
        An Introduction to the Bootstrap (Efron, Tibshirani, 1993), chapter 13.
        https://doi.org/10.1007/978-1-4899-4541-9

    Args:
        pairs: Every method's value of each of Q queries; one subset per metric.
        resamples: Number R of resamples.
        seed: Seed, at least 0.

    Returns:
        Metric -> replicates; the three aggregations agree.

    Raises:
        UserError: If a number is out of range or there is no method.

    Example:
        >>> ones, halves = np.ones(20), np.full(20, 0.5)
        >>> pairs = ScoredPairs("T", "test", ("mrr@10",), (ones,), {"exact": (ones,), "half": (halves,)})
        >>> bootstrap_retrieval(pairs, resamples=50)["mrr@10"].difference("exact", "half").text()
        '50.0 [50.0, 50.0]'
    """
    check_resampling(pairs.task, len(pairs.predicted), resamples=resamples, seed=seed)
    methods, queries = len(pairs.predicted), len(pairs.gold[0])
    by_query = np.array([each for values in pairs.predicted.values() for each in values])
    drawn = blocks(pairs.task, queries, resamples, seed)
    means = np.concatenate([unit_means(by_query, block.multiplicities([queries])) for block in drawn], axis=1)
    points = np.array([row.mean() for row in by_query]).reshape(methods, -1)
    values = means.reshape(methods, -1, resamples)
    figures = {metric: (points[:, place], values[:, place]) for place, metric in enumerate(pairs.subsets)}
    return by_metric(pairs.task, tuple(pairs.predicted), figures, queries, seed)

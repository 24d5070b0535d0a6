"""Paired bootstrap over queries: how sure recall and MRR, or a difference of two methods, are."""

import numpy as np

from flowbert.errors import UserError
from flowbert.evaluation.bootstrap import Replicates
from flowbert.evaluation.pairs import ScoredPairs
from flowbert.evaluation.protocol import AGGREGATIONS


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
        seed: Seed.

    Returns:
        Metric -> replicates; the three aggregations agree.

    Raises:
        UserError: If ``resamples`` is below 1.

    Example:
        >>> ones, halves = np.ones(20), np.full(20, 0.5)
        >>> pairs = ScoredPairs("T", "test", ("mrr@10",), (ones,), {"exact": (ones,), "half": (halves,)})
        >>> bootstrap_retrieval(pairs, resamples=50)["mrr@10"].difference("exact", "half").text()
        '50.0 [50.0, 50.0]'
    """
    if resamples < 1:
        raise UserError(f"resamples is {resamples}; allowed: a whole number of at least 1")
    queries = len(pairs.gold[0])
    counts = np.random.default_rng(seed).multinomial(queries, np.full(queries, 1 / queries), size=resamples)
    weights = counts.T / queries
    shape = (len(pairs.predicted), len(AGGREGATIONS))
    found = {}
    for place, metric in enumerate(pairs.subsets):
        by_query = np.array([values[place] for values in pairs.predicted.values()])
        points, values = by_query.mean(axis=1)[:, None], (by_query @ weights)[:, None]
        found[metric] = Replicates(
            f"{pairs.task} {metric}",
            tuple(pairs.predicted),
            np.broadcast_to(points, shape),
            np.broadcast_to(values, (*shape, resamples)),
            queries,
            seed,
        )
    return found

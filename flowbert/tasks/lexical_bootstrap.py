"""Paired bootstrap of the Spearman figures with the edit distance, over pairs, stratified by subset."""

import numpy as np
from numpy.typing import NDArray

from flowbert.tasks.bootstrap import Replicates, bootstrap
from flowbert.tasks.lexical import edit_distance_metric, lexical_pairs
from flowbert.tasks.pairs import ScoredPairs
from flowbert.tasks.protocol import AGGREGATIONS
from flowbert.tasks.unit_bootstrap import by_metric


def bootstrap_lexical(
    pairs: ScoredPairs,
    distances: NDArray[np.float64],
    unit: str,
    *,
    resamples: int = 1000,
    seed: int = 0,
    threads: int = 1,
) -> dict[str, Replicates]:
    """Resample pairs, with their edit distance, and compute every method's and the gold score's figure on each.

    The resamples are those of :func:`flowbert.tasks.bootstrap.bootstrap` on the same pairs.

    Args:
        pairs: Gold scores and similarities, N pairs.
        distances: Of the same pairs, shape ``(N,)``.
        unit: Their unit, for the metric's name.
        resamples: Number R of resamples.
        seed: Seed, at least 0.
        threads: Threads that share the work.

    Returns:
        Metric, e.g. ``edit_distance_words`` -> replicates of ``gold`` and of each method, over all pairs of the split
        as :func:`flowbert.tasks.lexical.lexical_figures` has them: the three aggregations agree.

    Raises:
        UserError: If a number is out of range, or there are not as many distances as pairs.

    Example:
        >>> gold = np.arange(30.0)
        >>> pairs = ScoredPairs("T", "test", ("T",), (gold,), {"raw": (gold**2,)})
        >>> found = bootstrap_lexical(pairs, -gold, "words", resamples=50)["edit_distance_words"]
        >>> found.interval("raw").text(), found.difference("raw", "gold").text()
        ('-100.0 [-100.0, -100.0]', '0.0 [0.0, 0.0]')
    """
    found = bootstrap(lexical_pairs(pairs, distances), resamples=resamples, seed=seed, threads=threads)
    whole = AGGREGATIONS.index("all")
    figures = {edit_distance_metric(unit): (found.points[:, whole], found.values[:, whole])}
    return by_metric(pairs.task, found.methods, figures, found.pairs, seed)

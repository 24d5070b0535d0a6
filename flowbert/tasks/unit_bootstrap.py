"""What the bootstraps over questions, queries and pairs without subsets share: means of units, replicates by metric."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from flowbert.tasks.bootstrap import Replicates
from flowbert.tasks.protocol import AGGREGATIONS
from flowbert.tasks.resampling import Counts

Floats = NDArray[np.float64]


def unit_means(values: Floats, counts: Counts) -> Floats:
    """Mean over the units drawn, e.g. of the reciprocal ranks of questions.

    Args:
        values: Value of each of U units in each of K rows, shape ``(K, U)``; NaN in all rows for a unit without value,
            which is left out.
        counts: Multiplicities of shape ``(R, U)``.

    Returns:
        Shape ``(K, R)``; NaN for a resample in which no unit has a value.

    Example:
        >>> unit_means(np.array([[1.0, 0.5, np.nan]]), np.array([[1, 1, 1], [2, 0, 1], [0, 0, 3]], dtype=np.int32))
        array([[0.75, 1.  ,  nan]])
    """
    kept = ~np.isnan(values).all(axis=0)
    weights = counts[:, kept].astype(np.float64)
    total = weights.sum(axis=1)
    total[total == 0] = np.nan
    # Row by row: one product of matrices may round equal rows differently, and then a method differs from its twin.
    means: Floats = np.stack([weights @ row for row in np.ascontiguousarray(values[:, kept])]) / total
    return means


def by_metric(
    task: str, methods: Sequence[str], figures: Mapping[str, tuple[Floats, Floats]], units: int, seed: int
) -> dict[str, Replicates]:
    """Replicates of figures that know no subsets, so that the three aggregations agree.

    Args:
        task: Name of the task.
        methods: Names of the M methods.
        figures: Metric -> figures as they are, shape ``(M,)``, and by resample, shape ``(M, R)``.
        units: Number of units resampled.
        seed: Seed of the resampling.

    Returns:
        Metric -> replicates; their task is ``"TASK METRIC"``.
    """
    repeat = len(AGGREGATIONS)
    return {
        metric: Replicates(
            f"{task} {metric}",
            tuple(methods),
            np.broadcast_to(points[:, None], (len(methods), repeat)),
            np.broadcast_to(values[:, None], (len(methods), repeat, values.shape[1])),
            units,
            seed,
        )
        for metric, (points, values) in figures.items()
    }

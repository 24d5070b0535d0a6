"""Spearman's rank correlation, exact on large tied data."""

import math
import warnings

import numpy as np
from numpy.typing import NDArray

from flowbert.errors import FlowbertWarning
from flowbert.metrics.arrays import Array, to_vector


def spearman(predictions: Array, target: Array) -> float:
    r"""Spearman's :math:`\rho`: Pearson's correlation of the average (mid-) ranks, in float64.

    Equal to ``scipy.stats.spearmanr``. A figure that does not exist is NaN with a warning, never a number: constant or
    non-finite values, or fewer than two pairs.

    References:
        The proof and measurement of association between two things (Spearman, 1904). https://doi.org/10.2307/1412159

    Args:
        predictions: Values of shape ``(N,)``, torch or numpy.
        target: Values of shape ``(N,)``.

    Returns:
        The correlation in [-1, 1], or NaN.

    Raises:
        ValueError: If an argument is not 1-D, or the lengths differ.

    Example:
        >>> round(spearman(np.array([0.1, 0.4, 0.2, 0.9]), np.array([1.0, 2.0, 2.0, 5.0])), 4)
        0.9487
    """
    x, y = to_vector(predictions, "predictions"), to_vector(target, "target")
    if len(x) != len(y):
        raise ValueError(f"predictions have {len(x)} values and target has {len(y)}; allowed: equal lengths")
    problem = no_spearman(x, y)
    if problem:
        warnings.warn(f"Spearman is NaN: {problem}", FlowbertWarning, stacklevel=2)
    return spearman_or_nan(x, y)


def spearman_or_nan(predictions: Array, target: Array) -> float:
    """As :func:`spearman`, but NaN without a warning: for figures whose absence was told already.

    Example:
        >>> spearman_or_nan(np.ones(3), np.arange(3.0))
        nan
    """
    x, y = to_vector(predictions, "predictions"), to_vector(target, "target")
    if no_spearman(x, y):
        return math.nan
    ranks_x, ranks_y = mid_ranks(x) - (len(x) + 1) / 2, mid_ranks(y) - (len(y) + 1) / 2
    norm = math.sqrt(float(ranks_x @ ranks_x)) * math.sqrt(float(ranks_y @ ranks_y))
    return min(1.0, max(-1.0, float(ranks_x @ ranks_y) / norm))


def mid_ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks from 1 of finite values of shape ``(N,)``; equal values share the mean of theirs.

    Equal to ``scipy.stats.rankdata``, whose import takes half a second.

    Example:
        >>> mid_ranks(np.array([0.5, 2.0, 0.5]))
        array([1.5, 3. , 1.5])
    """
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    last = np.append(ordered[1:] != ordered[:-1], True)
    ends = np.flatnonzero(last) + 1  # the highest rank of each value
    sizes = np.diff(ends, prepend=0)
    ranks = np.empty(len(values))
    ranks[order] = np.repeat(ends - (sizes - 1) / 2, sizes)
    return ranks


def no_spearman(predictions: Array, target: Array) -> str | None:
    """Why the correlation of values of shape ``(N,)`` does not exist, in one line; None if it does.

    Example:
        >>> no_spearman(np.ones(3), np.arange(3.0))
        'all 3 predictions are 1'
    """
    x, y = to_vector(predictions, "predictions"), to_vector(target, "target")
    if len(x) < 2:
        return f"{len(x)} pairs; at least 2 are needed"
    for name, values in (("predictions", x), ("target", y)):
        bad = int((~np.isfinite(values)).sum())
        if bad:
            return f"{bad} of {len(values)} {name} are NaN or infinite"
        if values.min() == values.max():
            return f"all {len(values)} {name} are {values[0]:g}"
    return None

"""How to interpret a cosine: percentiles of the cosines of random pairs."""

import numpy as np

from flowbert.arrays import Floats
from flowbert.errors import UserError
from flowbert.seeding import Stream

PERCENTILES = (50.0, 95.0, 99.0, 99.9)

_DRAWN_PAIRS = 100_000  # 100 of them beyond the 99.9th percentile
_BLOCKS = 20  # of pairs, in memory one by one
# Steps of 0.1, and of 0.01 from 99.8 on: as fine as so many pairs resolve.
_LEVELS = np.concatenate([np.arange(998) / 10, np.arange(9980, 10001) / 100])


def cosine_percentiles(vectors: Floats, seed: int = 0) -> dict[str, float]:
    r"""Percentiles of the cosines of random pairs of vectors: what a cosine is worth.

    Args:
        vectors: Vectors of different sentences, ``(N, D)``; all pairs of few, 100,000 of more.
        seed: Seed of the pairs.

    Returns:
        ``p50``, ``p95``, ``p99`` and ``p99.9``, the cosines at these percentiles; ``error``, the
        standard error of the last, as of independent pairs; ``effective_dim``,
        :math:`D_{\mathrm{eff}} = 1 / \overline{c^2}`, the participation ratio of the second moment
        of the unit-length vectors: D if their directions are uniform, 1 if they are all equal.
        Cosines of a Gaussian around 0 are about :math:`N(0, 1 / D_{\mathrm{eff}})`.

    Raises:
        UserError: If there are fewer than two vectors.

    References:
        Confidence Intervals for Medians and Other Position Measures (Woodruff, 1952).
        https://doi.org/10.1080/01621459.1952.10483443

    Example:
        >>> x = np.random.default_rng(0).normal(size=(400, 64))
        >>> found = cosine_percentiles(x)
        >>> round(found["effective_dim"]), round(found["p99"], 1)
        (64, 0.3)
    """
    number = len(vectors)
    if number < 2:
        raise UserError(argument="vectors", received=number, expected="2 or more")
    rows = np.asarray(vectors, dtype=np.float32)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit = rows / np.maximum(lengths, np.float32(1e-12))
    if number * (number - 1) // 2 <= _DRAWN_PAIRS:
        cosines = (unit @ unit.T)[np.triu_indices(number, 1)]
    else:
        rng = Stream(seed, "pairs").rng()
        first = rng.integers(number, size=_DRAWN_PAIRS)
        second = (first + rng.integers(1, number, size=_DRAWN_PAIRS)) % number
        blocks = (np.array_split(each, _BLOCKS) for each in (first, second))
        parts = zip(*blocks, strict=True)
        cosines = np.concatenate([(unit[i] * unit[j]).sum(axis=1) for i, j in parts])
    cosines = cosines.astype(np.float64)
    quantiles = np.quantile(cosines, _LEVELS / 100)
    found = {f"p{p:g}": float(np.interp(p, _LEVELS, quantiles)) for p in PERCENTILES}
    last = PERCENTILES[-1]
    error = np.sqrt(last * (100 - last) / len(cosines))
    low, high = np.interp([last - error, last + error], _LEVELS, quantiles)
    # 1 / D at least, but for the chance of the pairs (Cauchy and Schwarz).
    square = max(float(np.mean(cosines**2)), 1 / rows.shape[1])
    return found | {"error": float(high - low) / 2, "effective_dim": 1 / square}

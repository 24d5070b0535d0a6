"""What tests of several rooms share."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def rows(count: int = 200, dim: int = 6, seed: int = 0) -> Floats:
    """Rows with different variances, correlated, off the origin: ``(count, dim)``."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, dim)) @ rng.normal(size=(dim, dim)) + 3

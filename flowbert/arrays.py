"""Types of arrays, where they lie, and how many rows are worked on at once."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.floating[Any]]
Indices: TypeAlias = NDArray[np.int64]


def is_pinned_for(device: Any) -> bool:
    """Whether batches for a device lie in pinned memory, which it reads while the host goes on."""
    return device.type not in ("cpu", "mps")


BLOCK_ROWS = 2048
"""Rows that are read, mapped or sent through a flow at once, so that memory does not grow with N.

The activations of a flow on more fall out of the caches of a CPU; reading gains nothing from more.
"""

"""Types of arrays, and how many rows are worked on at once."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.floating[Any]]
Indices: TypeAlias = NDArray[np.int64]

BLOCK_ROWS = 2048
"""Rows that are read, mapped or sent through a flow at once, so that memory does not grow with N.

The activations of a flow on more fall out of the caches of a CPU; reading gains nothing from more.
"""

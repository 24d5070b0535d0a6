"""Types of arrays; docstrings give shapes and precision."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.floating[Any]]
Indices: TypeAlias = NDArray[np.int64]

"""Types of arrays, conversion to tensors, pinned memory, and the number of rows of a block."""

from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Floats: TypeAlias = NDArray[np.floating[Any]]
Indices: TypeAlias = NDArray[np.int64]


def to_tensor(x: Any) -> Tensor:
    """A tensor without its graph; numbers in a list, or in an array of any layout and byte order.

    Memory is shared where torch can read it: torch has no negative strides, no foreign byte order
    and no read-only tensors.

    Example:
        >>> to_tensor(np.arange(3.0, dtype=">f4")[::-1])
        tensor([2., 1., 0.])
    """
    if isinstance(x, Tensor):
        return x.detach()
    array = np.asarray(x)
    array = np.require(array, array.dtype.newbyteorder("="), ["C", "W"])
    if min(array.strides, default=0) < 0:  # numpy calls a single row contiguous
        array = array.copy()
    return torch.from_numpy(array)


def is_pinned_for(device: Any) -> bool:
    """Whether batches for a device are in pinned memory, which is copied asynchronously."""
    return device.type not in ("cpu", "mps")


BLOCK_ROWS = 2048
"""Rows that are read, mapped or sent through a flow at once, so that memory does not grow with N.

The activations of a flow on more fall out of the caches of a CPU; reading gains nothing from more.
"""

VECTOR_VALUES = "numbers of two bytes or more; single bytes are codes or packed bits"
"""Values of vectors, for messages."""


def holds_vector_values(dtype: Any) -> bool:
    """Whether a numpy or torch type has two bytes or more, so that its values are numbers.

    Precisions of one byte are codes without their scale, or the bits of eight dimensions.
    """
    return getattr(dtype, "kind", "f") in "fiu" and dtype.itemsize > 1

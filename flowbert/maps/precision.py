"""Vectors of fewer bits: int8 and binary."""

import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from flowbert.errors import FlowbertWarning, UserError, choices
from flowbert.io import load_tensors, save_tensors

Floats = NDArray[np.float32]

PRECISIONS = ("float32", "int8", "binary")
_KIND = "int8 scale"
_STEPS = 255
_ROUNDING = 1e-5  # of the largest range: what varies less, varies by rounding


class Ranges(NamedTuple):
    """Smallest and largest value of each dimension, ``(k,)``, float32: the scale of int8."""

    low: Floats
    high: Floats

    @classmethod
    def of(cls, blocks: Iterable[Floats]) -> Self:
        """Ranges over blocks of rows ``(n, k)``."""
        lows, highs = zip(
            *((block.min(axis=0), block.max(axis=0)) for block in blocks), strict=True
        )
        return cls(np.min(lows, axis=0), np.max(highs, axis=0))

    def first(self, size: int) -> "Ranges":
        """The ranges of the first dimensions."""
        return Ranges(self.low[:size], self.high[:size])

    def restore(self, codes: NDArray[np.int8]) -> Floats:
        """Vectors of int8 codes ``(N, k)``, to half a step of each dimension's range."""
        middle = codes.astype(np.float32) + np.float32(128.5)
        return self.low + middle * ((self.high - self.low) / np.float32(_STEPS))

    def save(self, path: Path) -> None:
        """Write a file."""
        save_tensors(path, _KIND, self._asdict())

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a file of :meth:`save`."""
        tensors, _ = load_tensors(path, _KIND)
        return cls(tensors["low"].numpy(), tensors["high"].numpy())


def check_precision(precision: str) -> None:
    """Raise a UserError for a precision that there is not."""
    if precision not in PRECISIONS:
        raise UserError(
            f"precision: received {precision!r}; {choices(PRECISIONS, precision)}"
        )


def quantize(
    vectors: Floats, precision: str, ranges: Ranges | None = None
) -> NDArray[Any]:
    """Quantize vectors as ``sentence_transformers.util.quantize_embeddings`` does.

    Args:
        vectors: Vectors ``(N, k)``, float32.
        precision: ``float32``; ``int8``, the step of 1/255 of a dimension's range, from -128 to
            127 (0 for a dimension that does not vary); ``binary``, a bit for each sign, eight
            to a byte.
        ranges: Scale of int8; None for the ranges of these vectors, with a warning.

    Returns:
        float32 or int8 ``(N, k)``, or uint8 ``(N, ceil(k / 8))``.

    Raises:
        UserError: If the precision is unknown, or a single vector has no scale.

    Example:
        >>> x = np.array([[-1.0, 254.0], [254.0, -1.0]], dtype=np.float32)
        >>> quantize(x, "binary").tolist()
        [[64], [128]]
    """
    check_precision(precision)
    if precision == "float32":
        return vectors
    if precision == "binary":
        return np.packbits(vectors > 0, axis=1)
    if ranges is None:
        if len(vectors) < 2:
            raise UserError(
                "precision: received int8 for one vector; expected a model with a scale"
            )
        warnings.warn(
            "precision: int8 without a saved scale takes the ranges of these vectors",
            FlowbertWarning,
            stacklevel=2,
        )
        ranges = Ranges.of([vectors])
    spans = ranges.high - ranges.low
    constant = spans <= _ROUNDING * spans.max()
    steps = np.where(constant, np.float32(1), spans / np.float32(_STEPS))
    codes = np.clip(np.floor((vectors - ranges.low) / steps), 0, _STEPS) - 128
    codes[:, constant] = 0  # any other constant would bring all cosines nearer to 1
    return codes.astype(np.int8)

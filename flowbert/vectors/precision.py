"""Vectors in fewer bits: a byte for each number, or its sign alone."""

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from flowbert.errors import FlowbertWarning, UserError, choices
from flowbert.io.container import read_container, write_container
from flowbert.vectors.matrix import Floats

PRECISIONS = ("float32", "int8", "binary")
_FORMAT = "flowbert-ranges-1"
_STEPS = 255
_ROUNDING = 1e-5  # a dimension whose range is a smaller share of the largest one varies by rounding alone


@dataclass(frozen=True, eq=False)
class Ranges:
    """Smallest and largest value of each dimension, over the rows that set the scale of int8.

    Attributes:
        low: Shape ``(k,)``, float32.
        high: Shape ``(k,)``, float32.
    """

    low: Floats
    high: Floats

    @classmethod
    def of(cls, blocks: Iterable[Floats]) -> "Ranges":
        """Ranges over blocks of rows, each ``(n, k)``, of which one is in memory at a time."""
        ends = [(block.min(axis=0), block.max(axis=0)) for block in blocks if len(block)]
        return cls(np.min([low for low, _ in ends], axis=0), np.max([high for _, high in ends], axis=0))

    def first(self, size: int) -> "Ranges":
        """Those of the first dimensions."""
        return Ranges(self.low[:size], self.high[:size])

    def restore(self, codes: npt.NDArray[np.int8]) -> Floats:
        """The vectors again that int8 codes ``(N, k)`` stand for, to half a step of a dimension's range.

        Codes of two dimensions are of two scales: their cosines are not those of the vectors, while those of what is
        restored nearly are.
        """
        middle = codes.astype(np.float32) + np.float32(128.5)
        return self.low + middle * ((self.high - self.low) / np.float32(_STEPS))

    def save(self, path: Path) -> None:
        """Write them."""
        write_container(path, _FORMAT, {"low": self.low, "high": self.high})

    @classmethod
    def load(cls, path: Path) -> "Ranges":
        """Read what :meth:`save` wrote.

        Raises:
            UserError: If the file is missing or damaged.
        """
        _, tensors = read_container(path, _FORMAT, "int8 scale", "run `fit` again")
        return cls(tensors["low"].numpy(), tensors["high"].numpy())


def check_precision(precision: str) -> None:
    """Refuse an unknown one.

    Raises:
        UserError: If it is.
    """
    if precision not in PRECISIONS:
        raise UserError(f"precision: received {precision!r}; {choices(PRECISIONS, precision)}")


def warn_of_own_scale(rows: int) -> None:
    """Say that int8 vectors have no scale but their own.

    Raises:
        UserError: If there is a single one: its range in every dimension is nothing.
    """
    if rows < 2:
        raise UserError("precision: received int8 for one vector; allowed with a model of a fit, which has a scale")
    message = f"int8: no saved scale, so that of these {rows} vectors; others will have another"
    warnings.warn(message, FlowbertWarning, stacklevel=3)


def quantize(vectors: Floats, precision: str, ranges: Ranges | None = None) -> npt.NDArray[Any]:
    """Vectors ``(N, k)`` in fewer bits, as ``sentence_transformers.util.quantize_embeddings`` has them.

    References:
        sentence-transformers, ``quantize_embeddings``, precisions ``int8`` and ``ubinary``.
        https://github.com/huggingface/sentence-transformers

    Args:
        vectors: float32.
        precision: ``float32``; ``int8``, the step of 1/255 of a dimension's range that a value lies in, from -128 for
            the lowest to 127 for the highest, values beyond the range are cut, and a dimension that does not vary is 0
            (-128 in sentence-transformers); ``binary``, a bit for each sign, eight to a byte (zeros at the end of a
            row if k is no multiple of eight).
        ranges: The ranges for int8; default: those of these vectors.

    Returns:
        float32 or int8 of shape ``(N, k)``, or uint8 of shape ``(N, ceil(k / 8))``.

    Raises:
        UserError: If the precision is unknown.

    Example:
        >>> x = np.array([[-1.0, 254.0], [254.0, -1.0], [4.5, 0.5]], dtype=np.float32)
        >>> quantize(x, "int8").tolist(), quantize(x, "binary").tolist()
        ([[-128, 127], [127, -128], [-123, -127]], [[64], [128], [192]])
    """
    check_precision(precision)
    if precision == "float32":
        return vectors
    if precision == "binary":
        return np.packbits(vectors > 0, axis=1)
    found = Ranges.of([vectors]) if ranges is None else ranges
    spans = found.high - found.low
    still = spans <= _ROUNDING * spans.max()
    steps = np.where(still, np.float32(1), spans / np.float32(_STEPS))
    codes = (np.clip(np.floor((vectors - found.low) / steps), 0, _STEPS) - 128).astype(np.int8)
    codes[:, still] = 0  # any other constant would bring all cosines nearer to 1
    return codes

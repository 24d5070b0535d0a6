"""Output of vectors: fewer dimensions, unit length, fewer bits."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from flowbert.arrays import Floats
from flowbert.errors import UserError, check_choice, warn
from flowbert.numbers import is_count

PRECISIONS = ("float32", "float16", "int8", "uint8", "binary", "ubinary")
_BYTES = ("int8", "uint8")
_STEPS = 255
_MIDDLE = 128
_ROUNDING = 1e-5  # of the largest range: what varies less, varies by rounding
_SHORTEST = np.float32(1e-12)  # shorter vectors keep their direction, as in torch


class Ranges(NamedTuple):
    """Smallest and largest value of each dimension, ``(k,)``, float32."""

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

    def restore(self, codes: NDArray[Any]) -> Floats:
        """Vectors of int8 or uint8 codes ``(N, k)``, to half a step of each dimension's range."""
        shift = 0.5 if codes.dtype == np.uint8 else _MIDDLE + 0.5
        middle = codes.astype(np.float32) + np.float32(shift)
        return self.low + middle * ((self.high - self.low) / np.float32(_STEPS))


class Scale(NamedTuple):
    """Ranges that int8 and uint8 vectors are scaled by, from a sample of a model's vectors.

    Args:
        plain: Ranges of the vectors.
        unit: Ranges of the unit-length vectors.
    """

    plain: Ranges
    unit: Ranges

    @classmethod
    def of(cls, rows: Floats) -> Self:
        """The scale of rows ``(n, k)``."""
        return cls(Ranges.of([rows]), Ranges.of([normalize(rows)]))


class Output(NamedTuple):
    """Post-processing of vectors, in this order, which is that of sentence-transformers.

    Args:
        truncate_dim: First dimensions to keep; None for all.
        normalize: Scale vectors to length 1.
        precision: One of :data:`PRECISIONS`, see :func:`quantize`.
    """

    truncate_dim: int | None = None
    normalize: bool = False
    precision: str = "float32"

    def check(self, dim: int, scale: Scale | None = None) -> None:
        """Check the options for vectors of size ``dim``, before any is computed.

        Raises:
            UserError: If one is not allowed, or no scale is saved for what is asked for.
        """
        check_precision(self.precision)
        if self.truncate_dim is not None and not is_count(self.truncate_dim, 1, dim):
            raise UserError(
                argument="truncate_dim",
                received=self.truncate_dim,
                expected=f"a whole number from 1 to {dim}, or none",
            )
        if scale is not None and self.precision in _BYTES:
            self._ranges(scale, dim)

    def finish(
        self, blocks: Iterable[Floats], scale: Scale | None = None
    ) -> Iterator[NDArray[Any]]:
        """Blocks of vectors ``(n, k)`` as they are given out, one by one.

        Raises:
            UserError: If there is no scale for bytes; no block was read then.
        """
        is_bytes = self.precision in _BYTES
        if is_bytes and scale is None:
            raise UserError(
                f"received {self.precision} without saved ranges, so the bytes of two calls would "
                "not be comparable; expected a model saved by fit, or Model.calibrate(sentences) "
                "first",
                argument="precision",
            )
        for block in blocks:
            vectors = block[:, : self.truncate_dim]
            if self.normalize:
                vectors = normalize(vectors)
            ranges = None
            if is_bytes and scale is not None:
                ranges = self._ranges(scale, vectors.shape[1])
            yield quantize(vectors, self.precision, ranges)

    def _ranges(self, scale: Scale, size: int) -> Ranges:
        if not self.normalize:
            return scale.plain.first(size)
        whole = len(scale.plain.low)
        if (self.truncate_dim or whole) < whole:
            raise UserError(
                f"received {self.precision} for truncated and normalized vectors, whose ranges "
                "are not saved; expected float32, or vectors truncated or normalized alone",
                argument="precision",
            )
        return scale.unit


def normalize(vectors: Floats) -> Floats:
    """Vectors ``(N, k)`` at length 1; a zero vector stays."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: Floats = vectors / np.maximum(lengths, _SHORTEST)
    return unit


def check_precision(precision: str) -> None:
    """Raise a UserError for an unknown precision."""
    check_choice("precision", precision, PRECISIONS)


def quantize(
    vectors: Floats, precision: str, ranges: Ranges | None = None
) -> NDArray[Any]:
    """Quantize vectors as ``sentence_transformers.util.quantize_embeddings`` does.

    Args:
        vectors: Vectors ``(N, k)``, float32.
        precision: ``float32``; ``float16``; ``int8`` or ``uint8``, the step of 1/255 of a
            dimension's range, from -128 to 127 or 0 to 255 (0 or 128 for a dimension that does not
            vary); ``binary`` or ``ubinary``, a bit for each sign, eight to a byte, of which
            ``binary`` subtracts 128.
        ranges: Scale of the bytes; None for the ranges of these vectors, with a warning.

    Returns:
        float32, float16, int8 or uint8 ``(N, k)``, or int8 or uint8 ``(N, ceil(k / 8))`` of bits.

    Raises:
        UserError: If the precision is unknown, a value overflows in float16, or a single vector has
            no scale.

    Example:
        >>> x = np.array([[-1.0, 254.0], [254.0, -1.0]], dtype=np.float32)
        >>> quantize(x, "ubinary").tolist(), quantize(x, "binary").tolist()
        ([[64], [128]], [[-64], [0]])
    """
    check_precision(precision)
    if precision == "float32":
        return vectors
    if precision == "float16":
        return _as_float16(vectors)
    if precision not in _BYTES:
        bits = np.packbits(vectors > 0, axis=1)
        return bits if precision == "ubinary" else _centred(bits)
    if ranges is None:
        if len(vectors) < 2:
            raise UserError(
                f"received {precision} for one vector; expected a model with a scale",
                argument="precision",
            )
        warn(
            f"precision: {precision} without a saved scale uses the ranges of these vectors"
        )
        ranges = Ranges.of([vectors])
    spans = ranges.high - ranges.low
    constant = spans <= _ROUNDING * spans.max()
    steps = np.where(constant, np.float32(1), spans / np.float32(_STEPS))
    codes = np.clip(np.floor((vectors - ranges.low) / steps), 0, _STEPS)
    codes[:, constant] = (
        _MIDDLE  # any other constant would bring all cosines nearer to 1
    )
    unsigned = codes.astype(np.uint8)
    return unsigned if precision == "uint8" else _centred(unsigned)


def _as_float16(vectors: Floats) -> NDArray[np.float16]:
    with np.errstate(over="ignore"):
        half = vectors.astype(np.float16)
    if not np.isfinite(half).all():
        raise UserError(
            f"received float16 for values up to {np.abs(vectors).max():.3g}; expected at most "
            f"{np.finfo(np.float16).max:.0f}, or float32",
            argument="precision",
        )
    return half


def _centred(codes: NDArray[np.uint8]) -> NDArray[np.int8]:
    """Codes of 0 to 255 from -128 to 127."""
    return (codes.astype(np.int16) - _MIDDLE).astype(np.int8)

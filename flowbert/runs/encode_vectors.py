"""Vectors in, mapped vectors out, block by block: from a file of any size, to a file."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import torch

from flowbert.errors import UserError
from flowbert.io.run_folder import RunFolder
from flowbert.methods.base import Transform
from flowbert.methods.embedder import default_method, saved_scale, sound_map, transform_of
from flowbert.progress import progress
from flowbert.vectors import Ranges, Vectors, VectorTable, check_precision, quantize, warn_of_own_scale, write_vectors
from flowbert.vectors.matrix import Floats


@overload
def encode_vectors(
    vectors: Vectors | VectorTable,
    output: None = None,
    *,
    column: str | None = ...,
    model: str | Path | None = ...,
    method: str | None = ...,
    precision: str = ...,
    device: torch.device | str = ...,
) -> npt.NDArray[Any]: ...


@overload
def encode_vectors(
    vectors: Vectors | VectorTable,
    output: str | Path,
    *,
    column: str | None = ...,
    model: str | Path | None = ...,
    method: str | None = ...,
    precision: str = ...,
    device: torch.device | str = ...,
) -> tuple[int, int]: ...


def encode_vectors(
    vectors: Vectors | VectorTable,
    output: str | Path | None = None,
    *,
    column: str | None = None,
    model: str | Path | None = None,
    method: str | None = None,
    precision: str = "float32",
    device: torch.device | str = "cpu",
) -> npt.NDArray[Any] | tuple[int, int]:
    """Map vectors from elsewhere with a fitted model, or write them in another format or at lower precision.

    Args:
        vectors: File of vectors (.npy, .safetensors, .parquet, .arrow, .feather), or an array ``(N, D)``.
        output: File to write, of one of the same endings; a block of rows is in memory at a time, whatever N is.
        column: Column of lists, or name of the tensor, if the file has several.
        model: Run folder of a finished fit, on vectors or on an encoder with embeddings of the same size; an exported
            folder; or the name of one on the hub.
        method: Map of the model: ``flow``, ``whitening`` or ``raw``; default: the flow, or the only map.
        precision: ``float32``, ``int8`` or ``binary``, see :func:`flowbert.vectors.quantize`. The scale of int8 is that
            of the fitting corpus, saved with the model; without one it is that of these vectors, which are read twice.
        device: Where the map computes.

    Returns:
        The vectors in their order, ``(N, k)``; if they were written, this shape alone. Eight dimensions of ``binary``
        are one number.

    Raises:
        UserError: For every mistake in the arguments or files; vectors of another size than the map takes are one.

    Example:
        >>> encode_vectors(np.array([[0.5, -1.0], [1.0, 2.0]]), precision="binary").tolist()
        [[128], [192]]
    """
    check_precision(precision)
    table = VectorTable.open(vectors, column)
    encoding = _Encoding(table, *_model(table, model, method), precision, torch.device(device))
    if output is None:
        return np.concatenate(list(encoding.blocks()))
    first = encoding.first()
    shape = len(table), first.shape[1]
    write_vectors(output, encoding.blocks(), shape, first.dtype.name)
    return shape


@dataclass
class _Encoding:
    """A table, its map, and how the result is stored."""

    table: VectorTable
    transform: Transform
    scale: Ranges | None
    precision: str
    device: torch.device

    def first(self) -> npt.NDArray[Any]:
        """What is stored of the first row, but for the scale of int8: it tells size and type."""
        return quantize(self._map(self.table.take([0])), self.precision)

    def blocks(self) -> Iterator[npt.NDArray[Any]]:
        """What is stored, block by block."""
        scale = self.scale
        if self.precision == "int8" and scale is None:
            warn_of_own_scale(len(self.table))
            scale = Ranges.of(self._mapped("Scaling"))
        for block in self._mapped("Encoding"):
            yield quantize(block, self.precision, scale)

    def _mapped(self, what: str) -> Iterator[Floats]:
        with progress(len(self.table), what, "vectors") as step:
            for _, block in self.table.blocks():
                yield self._map(block)
                step.update(len(block))

    def _map(self, block: Floats) -> Floats:
        found: Floats = self.transform(torch.from_numpy(block).to(self.device)).cpu().numpy()
        return found


def _model(table: VectorTable, model: str | Path | None, method: str | None) -> tuple[Transform, Ranges | None]:
    """The map, and the scale of int8 saved with it."""
    if model is None:
        if method not in (None, "raw"):
            raise UserError(f"method: received {method!r}; allowed with model, the run folder of a finished `fit`")
        return _unchanged, None
    run = RunFolder.find(model)
    name = method or default_method(run)
    if name == "raw":
        return _unchanged, saved_scale(run, name)
    fitted = sound_map(run, name)
    if fitted.dim != table.dim:
        raise UserError(
            f"vectors: those of {table.name} have the size {table.dim}; allowed with {name} in {model}: {fitted.dim}"
        )
    return transform_of(fitted), saved_scale(run, name)


def _unchanged(rows: torch.Tensor) -> torch.Tensor:
    return rows

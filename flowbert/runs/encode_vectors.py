"""Vectors in, mapped vectors out, block by block: from a file of any size, to a file."""

from collections.abc import Iterator
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
    transform, scale = _model(table, model, method)

    def mapped(block: Floats) -> Floats:
        return transform(torch.from_numpy(block).to(device)).cpu().numpy()

    def mapped_blocks(what: str) -> Iterator[Floats]:
        with progress(len(table), what, "vectors") as step:
            for _, block in table.blocks():
                yield mapped(block)
                step.update(len(block))

    def encoded() -> Iterator[npt.NDArray[Any]]:
        ranges = scale
        if precision == "int8" and ranges is None:
            warn_of_own_scale(len(table))
            ranges = Ranges.of(mapped_blocks("Scaling"))
        for block in mapped_blocks("Encoding"):
            yield quantize(block, precision, ranges)

    if output is None:
        return np.concatenate(list(encoded()))
    first = quantize(mapped(table.take([0])), precision)  # but for the scale of int8 it tells size and type of all
    shape = len(table), first.shape[1]
    write_vectors(output, encoded(), shape, first.dtype.name)
    return shape


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

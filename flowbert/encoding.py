"""Sentences, a file of them, or vectors to the vectors of a model."""

import itertools
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from flowbert.data.corpus import load_corpus
from flowbert.encoders import EncoderOptions, open_encoder
from flowbert.errors import FlowbertWarning, UserError
from flowbert.maps import (
    Ranges,
    check_output,
    check_precision,
    open_vectors,
    quantize,
    write_vectors,
)
from flowbert.model import Model, find_model, load_fitted
from flowbert.progress import bar

Floats = NDArray[np.float32]

_BLOCK = 8192


def encode(
    sentences: Sequence[str] | None = None,
    *,
    input: str | None = None,
    column: str | None = None,
    vectors: Any = None,
    model: str | None = None,
    method: str | None = None,
    encoder: EncoderOptions | str = "builtin-sample",
    precision: str = "float32",
    output: str | Path | None = None,
    device: torch.device | str = "cpu",
    devices: int = 1,
) -> Any:
    """Embed sentences with a fitted model or a frozen encoder, or map vectors from elsewhere.

    Args:
        sentences: The sentences.
        input: Text file with a sentence per line, or table, in place of sentences; globs too.
        column: Column of the sentences in a table, or of the vectors in a file.
        vectors: File of vectors, or an array ``(N, D)``, in place of sentences.
        model: Run folder of a finished fit, exported folder, or the hub name of one.
        method: Map of the model: ``flow``, ``whitening``, ``raw``; None for the flow, or the only
            map.
        encoder: The encoder without a model; with one, where it lies if it has moved.
        precision: ``float32``; ``int8``, a byte per dimension, by the ranges saved with the model,
            or else of what is encoded; ``binary``, a bit per dimension.
        output: File to write, ending in .npy, .safetensors or .parquet (with the sentences); only
            a block of vectors is in memory then.
        device: Device of the encoder.
        devices: Processes with a device each, which Lightning starts; more than one write a .npy
            file in float32.

    Returns:
        Vectors in the order of the sentences, ``(N, k)``, see :func:`flowbert.maps.quantize`; their
        shape if they were written.

    Raises:
        UserError: If an argument or a file is wrong.

    Example:
        >>> encode(["a dog runs", "the cat sleeps"]).shape
        (2, 128)
    """
    check_precision(precision)
    if output is not None:
        check_output(output)
    received = [value is not None for value in (sentences, input, vectors)]
    if sum(received) != 1:
        raise UserError(
            f"input: received {sum(received)} of sentences, input and vectors; expected one"
        )
    texts: Sequence[str] | None = None
    if vectors is not None:
        rows = open_vectors(vectors, column)
        count = len(rows)
        blocks, scale = _map_blocks(rows, model, method)
    else:
        texts = sentences if sentences is not None else _read(str(input), column)
        count = len(texts)
        if not count:
            raise UserError("sentences: received none; expected at least one")
        fitted = _open_model(model, method, encoder, texts, device)
        if devices > 1:
            return _predict(fitted, texts, output, precision, device, devices)
        blocks, scale = _encode_blocks(fitted, texts), fitted.scale
    if precision == "int8" and scale is None:
        blocks = iter([np.concatenate(list(blocks))])
    quantized = (quantize(block, precision, scale) for block in blocks)
    if output is None:
        return np.concatenate(list(quantized))
    first = next(quantized)
    shape = count, first.shape[1]
    write_vectors(
        output, itertools.chain([first], quantized), shape, first.dtype.name, texts
    )
    return shape


def _read(path: str, column: str | None) -> Sequence[str]:
    corpus = load_corpus(path, column=column)
    if corpus.blank:
        message = (
            f"input: {path}: {corpus.blank} blank lines left out: row i is not line i"
        )
        warnings.warn(message, FlowbertWarning, stacklevel=3)
    return corpus.sentences


def _open_model(
    model: str | None,
    method: str | None,
    encoder: EncoderOptions | str,
    texts: Sequence[str],
    device: torch.device | str,
) -> Model:
    """The fitted model, or the encoder as it is."""
    options = EncoderOptions(encoder) if isinstance(encoder, str) else encoder
    if model is not None:
        moved = None if options == EncoderOptions() else str(options.path)
        if options not in (EncoderOptions(), EncoderOptions(options.path)):
            raise UserError(
                f"encoder: received {options}; expected its path alone beside a model, which has "
                "the settings of the fit"
            )
        fitted = Model.load(model, method, encoder=moved)
        if isinstance(fitted.encoder, torch.nn.Module):
            fitted.encoder.to(device)
        return fitted
    if method not in (None, "raw"):
        raise UserError(f"method: received {method!r} without a model; expected raw")
    return Model(open_encoder(options, texts, device))


def _predict(
    model: Model,
    texts: Sequence[str],
    output: str | Path | None,
    precision: str,
    device: torch.device | str,
    devices: int,
) -> tuple[int, int]:
    """Encode in several processes."""
    from flowbert.modules.prediction import predict_vectors

    if output is None or Path(output).suffix != ".npy" or precision != "float32":
        raise UserError(
            f"devices: received {devices}; expected 1, or an output ending in .npy in float32"
        )
    return predict_vectors(model, texts, output, torch.device(device).type, devices)


def _encode_blocks(model: Model, texts: Sequence[str]) -> Iterator[Floats]:
    with bar(desc="Encoding", total=len(texts), unit="sentences") as progress:
        for start in range(0, len(texts), _BLOCK):
            block = texts[start : start + _BLOCK]
            yield model.encode(block)
            progress.update(len(block))


def _map_blocks(
    rows: Any, model: str | None, method: str | None
) -> tuple[Iterator[Floats], Ranges | None]:
    """Mapped blocks of rows, and the scale that was saved with the map."""
    fitted, scale = None, None
    if model is not None:
        fitted, scale = load_fitted(find_model(model), method)
    elif method not in (None, "raw"):
        raise UserError(f"method: received {method!r} without a model; expected raw")
    starts = range(0, len(rows), _BLOCK)
    blocks = (np.asarray(rows[start : start + _BLOCK], np.float32) for start in starts)
    return (
        block if fitted is None else fitted.transform(block) for block in blocks
    ), scale

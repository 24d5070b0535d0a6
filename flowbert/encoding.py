"""The command ``encode``: vectors of sentences, of files of sentences, or of other vectors."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from flowbert.arrays import Floats
from flowbert.data.corpus import load_corpus
from flowbert.encoders import (
    EncoderOptions,
    as_sentences,
    choose_device,
    open_encoder,
)
from flowbert.encoders.base import BLOCK_SENTENCES
from flowbert.errors import UserError, check_choice, warn
from flowbert.io import digest, sentences_digest
from flowbert.model import Model, load_fitted
from flowbert.numbers import Count
from flowbert.options import takes_options
from flowbert.progress import bar
from flowbert.registry import import_object
from flowbert.seeding import Stream
from flowbert.vectors import Vectors, as_vectors, check_output, write_vectors
from flowbert.vectors.cache import computation

PRECISIONS = (
    *("float32", "float16", "bfloat16"),
    *("int8", "uint8", "binary", "ubinary"),
)
_BYTES = ("int8", "uint8")


@takes_options
def encode(
    sentences: str | Sequence[str] | None = None,
    *,
    input: str | Path | None = None,
    column: str | None = None,
    vectors: Any = None,
    model: str | None = None,
    method: str | None = None,
    encoder: EncoderOptions | str = "builtin-sample",
    precision: str = "float32",
    ranges: Any = None,
    output: str | Path | None = None,
    device: torch.device | str = "auto",
    devices: Count = 1,
    num_nodes: Count = 1,
) -> Any:
    """Embed sentences with a fitted model or a frozen encoder, or map existing vectors.

    Args:
        sentences: The sentences; one string is one sentence.
        input: Text files with a sentence per line, or tables, instead of sentences; may be a glob,
            or a pipe.
        column: Column of the sentences in a table, or of the vectors in a file.
        vectors: File of vectors instead of sentences; in Python also an array ``(N, D)``.
        model: Run folder of a finished fit, exported folder, or the hub name of one.
        method: Map of the model: ``flow``, ``whitening``, ``raw``; None for the flow, or the only
            map.
        encoder: The encoder, if no model is given; with a model, its folder if it has moved.
        precision: ``float32``; ``float16``; ``bfloat16`` in a .safetensors file; ``int8`` or
            ``uint8``, a byte per dimension; ``binary`` or ``ubinary``, a bit per dimension, as
            ``sentence_transformers.quantize_embeddings`` computes them.
        ranges: File with the ranges of each dimension for ``int8`` and ``uint8``, such as
            ``a.ranges.npy`` of an earlier output ``a.npy``; in Python also an array ``(2, k)``.
            None for those of 4,096 of these vectors, which are written into such a file.
        output: File to write, ending in .npy, .safetensors or .parquet (with the sentences, or the
            other columns of a .parquet file of vectors). For .npy and .parquet only a block of
            vectors is in memory. An interrupted .npy file of sentences resumes with the same call.
        device: Device of the encoder, such as ``cuda:1``; ``auto`` for the GPU if there is one.
        devices: Number of processes with a device each, started by Lightning; more than one
            requires a .npy output in float32.
        num_nodes: Number of machines with this many processes each, started by torchrun, with a
            shared disk.

    Returns:
        Vectors in the order of the sentences, ``(N, k)``, or ``(k,)`` for one string, as
        ``Model.encode`` gives them; their shape, ``(N, k)``, if they were written.

    Raises:
        UserError: If an argument or a file is wrong.

    Example:
        >>> encode(["a dog runs", "the cat sleeps"]).shape
        (2, 128)
    """
    _check_output(output, precision, devices, num_nodes)
    received = sum(value is not None for value in (sentences, input, vectors))
    if received != 1:
        message = f"received {received} of sentences, input and vectors; expected one"
        raise UserError(message, argument="input")
    device = choose_device(device)
    if model is None and method not in (None, "raw"):
        message = f"received {method!r} without a model; expected raw"
        raise UserError(message, argument="method")
    rows: Vectors | Sequence[str]
    if vectors is not None:
        rows = as_vectors(vectors, column)
        fitted = _open_map(model, method, rows)
    else:
        rows = _read_sentences(sentences, input, column)
        fitted = _open_model(model, method, encoder, device)
        if devices > 1 or num_nodes > 1:
            predict = import_object("flowbert.extras.devices.predict_vectors")
            kind = torch.device(device).type
            return predict(fitted, rows, str(output), kind, devices, num_nodes)
    scale = None
    if precision in _BYTES:
        scale = _ranges(fitted, rows) if ranges is None else as_vectors(ranges)[:]

    def blocks(start: int = 0) -> Iterator[Any]:
        for block in _compute(fitted, rows, start):
            yield _convert(block, precision, scale)

    if output is None:
        result = np.concatenate(list(blocks()))
        return result[0] if isinstance(sentences, str) else result
    path = Path(output)
    key = columns = None
    if path.suffix == ".npy" and not isinstance(rows, Vectors):
        key = _key(fitted, rows, device, precision, scale)
    if path.suffix == ".parquet":
        columns = _other_columns(rows)
    shape = write_vectors(
        path, blocks, len(rows), columns=columns, key=key, size=BLOCK_SENTENCES
    )
    if scale is not None and ranges is None:
        write_vectors(path.with_suffix(".ranges.npy"), lambda _: [scale], 2)
    return shape


def _check_output(
    output: str | Path | None, precision: str, devices: int, num_nodes: int
) -> None:
    """Check the format of the output.

    Raises:
        UserError: If it is unknown, or cannot be combined with the precision or several processes.
    """
    check_choice("precision", precision, PRECISIONS)
    if output is not None:
        check_output(output)
    suffix = Path(output or "").suffix
    if precision == "bfloat16" and suffix != ".safetensors":
        expected = "float16, or an output ending in .safetensors"
        raise UserError(argument="precision", received=precision, expected=expected)
    for name, number in {"devices": devices, "num_nodes": num_nodes}.items():
        if number > 1 and (suffix, precision) != (".npy", "float32"):
            expected = "1, or an output ending in .npy in float32"
            raise UserError(argument=name, received=number, expected=expected)


def _read_sentences(
    sentences: str | Sequence[str] | None, path: str | Path | None, column: str | None
) -> Sequence[str]:
    """Sentences in memory or in files, at least one; blank lines are left out with a warning."""
    if sentences is not None:
        if texts := as_sentences(sentences):
            return texts
        expected = "at least one"
        raise UserError(argument="sentences", received="none", expected=expected)
    corpus = load_corpus(path, column=column)
    if corpus.blank:
        message = (
            f"input: {path}: {corpus.blank} blank lines left out: row i is not line i"
        )
        warn(message, 4)
    return corpus.sentences


def _open_model(
    model: str | None,
    method: str | None,
    encoder: EncoderOptions | str,
    device: torch.device | str,
) -> Model:
    """Open a fitted model, or the encoder without a map."""
    if model is None:
        # Without sentences to count tokens in: token weights must not depend on the input.
        return Model(open_encoder(encoder, device=device))
    options = EncoderOptions.of(encoder)
    moved = None if options == EncoderOptions() else str(options.path)
    fitted = Model.load(model, method, encoder=moved)
    return fitted.to(device)


def _open_map(model: str | None, method: str | None, vectors: Vectors) -> Model:
    """Open the map of a fitted model for vectors.

    Raises:
        UserError: If it was fitted on vectors of another size.
    """
    saved = None if model is None else load_fitted(model, method)
    fitted = Model(None, saved)
    size = getattr(fitted.map, "n_features_in_", vectors.shape[1])
    if vectors.shape[1] != size:
        raise UserError(
            f"received vectors of size {vectors.shape[1]}; expected {size}, as those that "
            f"{model} was fitted on",
            argument="vectors",
        )
    return fitted


def _compute(model: Model, rows: Vectors | Sequence[str], start: int) -> Iterator[Any]:
    """Compute vectors of a model in blocks, float32, from row ``start`` on; show the progress."""
    if not isinstance(rows, Vectors):
        progress = bar("encoding", len(rows), done=start)
        yield from model.embed_blocks(rows[start:], BLOCK_SENTENCES, progress)
        return
    with bar("mapping", len(rows)) as advance:
        for block in rows.blocks():
            yield model.transform(block)
            advance(len(block))


def _ranges(model: Model, rows: Vectors | Sequence[str]) -> Floats:
    """Compute the lowest and highest value of each dimension in a sample, ``(2, k)``."""
    order = Stream(0, "ranges").rng().permutation(len(rows))
    chosen = np.sort(order[:BLOCK_SENTENCES])
    if isinstance(rows, Vectors):
        sample = model.transform(rows[chosen])
    else:
        sample = model.embed([rows[place] for place in chosen])
    return np.stack([sample.min(axis=0), sample.max(axis=0)])


def _convert(block: Floats, precision: Any, ranges: Floats | None) -> Any:
    """Convert vectors ``(n, k)``, float32, to a precision.

    Raises:
        UserError: If a value is too large for it, or the ranges are those of another size.
    """
    if precision == "float32":
        return block
    if precision in ("float16", "bfloat16"):
        rounded = torch.from_numpy(block).to(getattr(torch, precision))
        if not rounded.isfinite().all():
            expected = f"float32, which holds {np.abs(block).max():g}"
            raise UserError(argument="precision", received=precision, expected=expected)
        return rounded if precision == "bfloat16" else rounded.numpy()
    from sentence_transformers import quantize_embeddings

    if ranges is None:
        return quantize_embeddings(block, precision)
    if ranges.shape != (2, block.shape[1]):
        expected = f"those of vectors of size {block.shape[1]}"
        raise UserError(argument="ranges", received=ranges.shape, expected=expected)
    # Before version 6 the library does not clip, and rounds int8 in another way.
    clipped = np.clip(block, *ranges)
    codes: Any = quantize_embeddings(clipped, "uint8", ranges=ranges)
    return codes if precision == "uint8" else (codes - 128.0).astype(np.int8)


def _key(
    model: Model, sentences: Sequence[str], device: Any, precision: str, ranges: Any
) -> str:
    """Digest of what determines the vectors of sentences in a precision."""
    codes = None if ranges is None else ranges.tolist()
    settings = precision, codes, str(device), computation()
    return digest(model.digest, sentences_digest(sentences), settings)


def _other_columns(rows: Vectors | Sequence[str]) -> Any:
    """Find the further columns of a .parquet file: the sentences, or those of the input."""
    if isinstance(rows, Vectors):
        return rows.other_columns()
    import pyarrow as pa  # slow to import

    return pa.table({"sentence": rows})

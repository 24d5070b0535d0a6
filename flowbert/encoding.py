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
from flowbert.options import EncodeOptions, takes
from flowbert.progress import bar
from flowbert.registry import import_object
from flowbert.seeding import Stream
from flowbert.vectors import Vectors, as_vectors, check_output, write_vectors
from flowbert.vectors.cache import computation

PRECISIONS = (
    *("float32", "float16", "bfloat16"),
    *("int8", "uint8", "binary", "ubinary"),
)


@takes(EncodeOptions)
def encode(options: EncodeOptions) -> Any:
    """Embed sentences with a fitted model or a frozen encoder, or map existing vectors.

    In Python, ``vectors`` may also be an array ``(N, D)``, and ``ranges`` one ``(2, k)``.

    Args:
        options: Fields of :class:`flowbert.options.EncodeOptions`, as arguments.

    Returns:
        Vectors in the order of the sentences, ``(N, k)``, or ``(k,)`` for one string, as from
        ``Model.encode``; with an output file, their shape ``(N, k)``.

    Raises:
        UserError: If an argument or a file is wrong.

    Example:
        >>> encode(["a dog runs", "the cat sleeps"]).shape
        (2, 128)
    """
    _check_output(options)
    sources = options.sentences, options.input, options.vectors
    received = sum(source is not None for source in sources)
    if received != 1:
        message = f"received {received} of sentences, input and vectors; expected one"
        raise UserError(message, argument="input")
    if options.model is None and options.method not in (None, "raw"):
        message = f"received {options.method!r} without a model; expected raw"
        raise UserError(message, argument="method")
    device = choose_device(options.device)
    rows: Vectors | Sequence[str]
    if options.vectors is not None:
        rows = as_vectors(options.vectors, options.column)
        model = _open_map(options, rows.shape[1])
    else:
        rows = _read_sentences(options)
        model = _open_model(options, device)
        if options.devices > 1 or options.num_nodes > 1:
            predict = import_object("flowbert.extras.devices.predict_vectors")
            return predict(model, rows, options, device.type)
    ranges = None
    if options.precision in ("int8", "uint8"):
        given = options.ranges
        ranges = _ranges(model, rows) if given is None else as_vectors(given)[:]

    def blocks(start: int = 0) -> Iterator[Any]:
        for block in _compute(model, rows, start):
            yield _convert(block, options.precision, ranges)

    if options.output is None:
        result = np.concatenate(list(blocks()))
        return result[0] if isinstance(options.sentences, str) else result
    path = Path(options.output)
    key = columns = None
    if path.suffix == ".npy" and not isinstance(rows, Vectors):
        settings = options.precision, str(device), computation()
        codes = b"" if ranges is None else ranges.tobytes()
        key = digest(model.digest, sentences_digest(rows), settings, codes)
    if path.suffix == ".parquet":
        columns = _other_columns(options, rows)
    shape = write_vectors(path, blocks, len(rows), columns=columns, key=key)
    if ranges is not None and options.ranges is None:
        write_vectors(path.with_suffix(".ranges.npy"), lambda _: [ranges], 2)
    return shape


def _check_output(options: EncodeOptions) -> None:
    """Check the format of the output.

    Raises:
        UserError: If it is unknown, or cannot be combined with the precision or several processes.
    """
    output, precision = options.output, options.precision
    check_choice("precision", precision, PRECISIONS)
    if output is not None:
        check_output(output)
    suffix = Path(output or "").suffix
    if precision == "bfloat16" and suffix != ".safetensors":
        expected = "float16, or an output ending in .safetensors"
        raise UserError(argument="precision", received=precision, expected=expected)
    if options.ranges is not None and precision not in ("int8", "uint8"):
        expected = "none, or precision int8 or uint8"
        raise UserError(argument="ranges", received="ranges", expected=expected)
    for name in ("devices", "num_nodes"):
        number = getattr(options, name)
        if number > 1 and (suffix, precision) != (".npy", "float32"):
            expected = "1, or an output ending in .npy in float32"
            raise UserError(argument=name, received=number, expected=expected)


def _read_sentences(options: EncodeOptions) -> Sequence[str]:
    """Sentences in memory or in files, at least one; blank lines are left out with a warning."""
    if options.sentences is not None:
        if texts := as_sentences(options.sentences):
            return texts
        expected = "at least one"
        raise UserError(argument="sentences", received="none", expected=expected)
    path = "/dev/stdin" if options.input == "-" else options.input
    corpus = load_corpus(path, column=options.column)
    if corpus.blank:
        message = (
            f"input: {path}: {corpus.blank} blank lines left out: row i is not line i"
        )
        warn(message, 4)
    return corpus.sentences


def _open_model(options: EncodeOptions, device: torch.device) -> Model:
    """Open a fitted model, or the encoder without a map."""
    if options.model is None:
        # Without sentences to count tokens in: token weights must not depend on the input.
        return Model(open_encoder(options.encoder, device=device))
    encoder = EncoderOptions.of(options.encoder)
    if isinstance(encoder, EncoderOptions) and encoder != EncoderOptions(encoder.path):
        expected = "a path alone: a model has the other options of its encoder"
        raise UserError(argument="encoder", received=encoder, expected=expected)
    moved = None if encoder == EncoderOptions() else str(encoder.path)
    return Model.load(options.model, options.method, encoder=moved).to(device)


def _open_map(options: EncodeOptions, size: int) -> Model:
    """Open the map of a fitted model for vectors of a size.

    Raises:
        UserError: If it was fitted on vectors of another size.
    """
    fitted = None
    if options.model is not None:
        fitted = load_fitted(options.model, options.method)
    expected = getattr(fitted, "n_features_in_", size)
    if size != expected:
        message = f"received vectors of size {size}; expected {expected}"
        raise UserError(message, argument="vectors")
    return Model(None, fitted)


def _compute(model: Model, rows: Vectors | Sequence[str], start: int) -> Iterator[Any]:
    """Compute float32 vectors of a model in blocks, from row ``start`` on, with a progress bar."""
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
        UserError: If a value is too large for the precision, or the ranges have another size.
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


def _other_columns(options: EncodeOptions, rows: Any) -> Any:
    """Other columns of a .parquet file: the sentences, or columns of a file of vectors."""
    if isinstance(options.vectors, str | Path):
        read = import_object("flowbert.extras.vector_files.other_columns")
        return read(options.vectors, options.column)
    if isinstance(rows, Vectors):
        return None
    import pyarrow as pa  # slow to import

    return pa.table({"sentence": rows})

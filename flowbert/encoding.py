"""Sentences, a file of them, or vectors to the vectors of a model."""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from flowbert.data.corpus import load_corpus
from flowbert.encoders import (
    EncoderOptions,
    as_sentences,
    choose_device,
    open_encoder,
)
from flowbert.encoders.base import BLOCK_SENTENCES
from flowbert.errors import UserError, check_choice, warn
from flowbert.io import digest, sentences_digest, write_atomically
from flowbert.model import Model, find_model, load_fitted
from flowbert.numbers import Count
from flowbert.options import takes_options
from flowbert.progress import bar
from flowbert.registry import import_object
from flowbert.seeding import Stream
from flowbert.vectors import (
    Vectors,
    append_vectors,
    as_vectors,
    check_output,
)
from flowbert.vectors.cache import computation

PRECISIONS = ("float32", "float16", "int8", "uint8", "binary", "ubinary")
_BYTES = ("int8", "uint8")


@takes_options
def encode(
    sentences: str | Sequence[str] | None = None,
    *,
    input: str | None = None,
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
        input: Text files with a sentence per line, or tables, instead of sentences; may be a glob.
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
    if output is not None:
        check_output(output)
    is_bfloat16 = precision == "bfloat16"
    if is_bfloat16:
        if Path(output or "").suffix != ".safetensors":
            raise UserError(
                argument="precision",
                received=precision,
                expected="float16, or an output ending in .safetensors",
            )
        precision = "float32"  # rounded when it is written
    check_choice("precision", precision, PRECISIONS)
    received = [value is not None for value in (sentences, input, vectors)]
    if sum(received) != 1:
        raise UserError(
            f"received {sum(received)} of sentences, input and vectors; expected one",
            argument="input",
        )
    device = choose_device(device)
    if model is None and method not in (None, "raw"):
        raise UserError(
            f"received {method!r} without a model; expected raw", argument="method"
        )
    is_plain = Path(output or "").suffix == ".npy" and precision == "float32"
    for name, number in {"devices": devices, "num_nodes": num_nodes}.items():
        if number > 1 and not is_plain:
            expected = "1, or an output ending in .npy in float32"
            raise UserError(argument=name, received=number, expected=expected)
    texts: Sequence[str] | None = None
    rows: Vectors | Sequence[str]
    if vectors is not None:
        rows = as_vectors(vectors, column)
        saved = None if model is None else load_fitted(find_model(model), method)
        fitted = Model(None, saved)
        size = getattr(fitted.map, "n_features_in_", rows.shape[1])
        if rows.shape[1] != size:
            raise UserError(
                f"received vectors of size {rows.shape[1]}; expected {size}, as those "
                f"that {model} was fitted on",
                argument="vectors",
            )
    else:
        given = sentences is not None
        rows = texts = as_sentences(sentences) if given else _read(str(input), column)
        if not texts:
            raise UserError(
                "received none; expected at least one", argument="sentences"
            )
        fitted = _open_model(model, method, encoder, device)
        if devices > 1 or num_nodes > 1:
            predict = import_object("flowbert.extras.devices.predict_vectors")
            kind = torch.device(device).type
            shape: tuple[int, int]
            shape = predict(fitted, texts, str(output), kind, devices, num_nodes)
            return shape
    scale = None
    if precision in _BYTES:
        if ranges is None:
            order = Stream(0, "ranges").rng().permutation(len(rows))
            chosen = np.sort(order[:BLOCK_SENTENCES])
            if texts is not None:
                sample = fitted.embed([texts[place] for place in chosen])
            elif isinstance(rows, Vectors):
                sample = fitted.transform(rows[chosen])
            scale = np.stack([sample.min(axis=0), sample.max(axis=0)])
        else:
            scale = as_vectors(ranges)[:]
        if not (scale[1] > scale[0]).any():
            raise UserError(
                f"received {precision} for equal vectors, which have no ranges; expected "
                "several, or the ranges of an earlier output",
                argument="precision",
            )

    def blocks(start: int = 0) -> Iterator[Any]:
        if isinstance(rows, Vectors):
            return _quantized(_mapped(fitted, rows), precision, scale)
        progress = bar("encoding", len(rows), done=start)
        embedded = fitted.embed_blocks(rows[start:], BLOCK_SENTENCES, progress)
        return _quantized(embedded, precision, scale)

    if output is None:
        result = np.concatenate(list(blocks()))
        return result[0] if isinstance(sentences, str) else result
    if texts is not None and Path(output).suffix == ".npy":
        codes = None if scale is None else scale.tolist()
        settings = precision, codes, str(device), computation()
        key = digest(fitted.digest, sentences_digest(texts), settings)
        shape = append_vectors(output, key, len(texts), BLOCK_SENTENCES, blocks)
        _write_ranges(output, scale if ranges is None else None)
        return shape
    finished = blocks()
    first = next(finished)
    shape = len(rows), first.shape[1]
    columns = None
    if Path(output).suffix == ".parquet":
        if texts is not None:
            import pyarrow as pa  # slow to import

            columns = pa.table({"sentence": texts})
        elif isinstance(rows, Vectors):
            columns = rows.other_columns()
    dtype = "bfloat16" if is_bfloat16 else first.dtype.name
    write = import_object("flowbert.extras.vector_files.write_vectors")
    write(output, itertools.chain([first], finished), shape, dtype, columns)
    _write_ranges(output, scale if ranges is None else None)
    return shape


def _write_ranges(output: str | Path, ranges: Any) -> None:
    """Write the ranges of codes, if there are any, into a file of their own."""
    if ranges is not None:
        with write_atomically(Path(output).with_suffix(".ranges.npy")) as temporary:
            np.save(temporary, ranges.astype(np.float32))


def _quantized(blocks: Iterator[Any], precision: Any, ranges: Any) -> Iterator[Any]:
    """Blocks of vectors in a precision."""
    for block in blocks:
        if precision in ("float32", "float16"):
            yield block.astype(precision, copy=False)
            continue
        if precision not in _BYTES:
            from sentence_transformers import quantize_embeddings

            yield quantize_embeddings(block, precision)
            continue
        if ranges.shape != (2, block.shape[1]):
            expected = f"those of vectors of size {block.shape[1]}"
            raise UserError(argument="ranges", received=ranges.shape, expected=expected)
        # Before version 6 quantize_embeddings lets vectors beyond the ranges overflow.
        low, high = ranges
        steps = np.where(high > low, (high - low) / 255, 1)
        codes = np.clip(np.floor((block - low) / steps), 0, 255)
        yield (codes - 128 if precision == "int8" else codes).astype(precision)


def _read(path: str, column: str | None) -> Sequence[str]:
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
    """The fitted model, or the encoder as it is."""
    if model is None:
        # No texts to count tokens over: weights of what is encoded would depend on it.
        return Model(open_encoder(encoder, device=device))
    options = EncoderOptions(encoder) if isinstance(encoder, str) else encoder
    moved = None if options == EncoderOptions() else str(options.path)
    fitted = Model.load(model, method, encoder=moved)
    return fitted.to(device)


def _mapped(model: Model, vectors: Vectors) -> Iterator[Any]:
    """Blocks of vectors after the map of a model, with a progress bar."""
    with bar("mapping", len(vectors)) as advance:
        for block in vectors.blocks():
            yield model.transform(block)
            advance(len(block))

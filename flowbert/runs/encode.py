"""Sentences or a file of them in, a file of vectors out."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy.typing as npt
import torch

from flowbert.data.corpus import Corpus, load_corpus, read_sentences
from flowbert.encoders import SentenceEncoder, resolve_layers
from flowbert.encoders.counting import choose_counted, weigh_tokens
from flowbert.encoders.loading import SAMPLE_PATH
from flowbert.errors import FlowbertWarning, UserError
from flowbert.methods.embedder import Embedder, load
from flowbert.vectors import check_precision, write_vectors


def encode(
    sentences: Sequence[str] | None = None,
    *,
    input: str | None = None,
    column: str | None = None,
    output: str | Path | None = None,
    model: str | Path | None = None,
    method: str | None = None,
    encoder: Mapping[str, Any] | None = None,
    precision: str = "float32",
    device: torch.device | str = "cpu",
) -> npt.NDArray[Any]:
    """Embed sentences with a fitted model, or with a frozen encoder as it is.

    Args:
        sentences: The sentences, unless they are in a file.
        input: Text file (a sentence a line) or table; globs too.
        column: Column of the sentences in a table.
        output: File to write, ending in .npy, .safetensors, or .parquet, .arrow, .feather, which hold the sentences,
            too; none: none is written.
        model: Run folder of a finished fit, an exported folder, or the name of one on the hub, owner/name@revision.
        method: Map of the model: flow, whitening or raw; default: the flow if there is one, else the only map.
        encoder: Arguments of :meth:`flowbert.encoders.SentenceEncoder.from_pretrained`; with a model its settings are
            those of the fit, and only ``path`` may be told anew.
        precision: Numbers of a vector: float32; int8, a byte each, by the ranges of the fitting corpus saved with the
            model, or else of what is encoded; binary, a bit each, the sign.
        device: Where to compute.

    Returns:
        Vectors of the sentences in their order, ``(N, k)``; compare them by cosine. float32, or see
        :func:`flowbert.vectors.quantize`.

    Raises:
        UserError: For every mistake in the arguments or files.

    Example:
        >>> encode(["a dog runs", "the cat sleeps"], encoder={"layers": "first_last"}).shape
        (2, 128)
    """
    if (input is None) == (sentences is None):
        raise UserError("input, sentences: received both or neither; allowed: one of them")
    check_precision(precision)
    texts = _read(input, column) if input is not None else list(sentences or ())
    if not texts:
        raise UserError("sentences: received no sentence; allowed: at least one")
    given = Corpus.of("input", texts)
    embedder = embedder_of(model, method, {"path": SAMPLE_PATH, **(encoder or {})}, lambda: given)
    embedder.encoder.to(device)
    vectors: npt.NDArray[Any] = embedder.encode(texts, precision=precision)
    if output is not None:
        rows, dim = vectors.shape
        write_vectors(output, [vectors], (rows, dim), vectors.dtype.name, texts)
    return vectors


def _read(path: str, column: str | None) -> list[str]:
    read = read_sentences(path, column)
    if read.blank:
        message = f"{path}: {read.blank} blank lines dropped, so row i of the output is not line i"
        warnings.warn(message, FlowbertWarning, stacklevel=3)
    return list(read.sentences)


def embedder_of(
    model: str | Path | None, method: str | None, asked: Mapping[str, Any], given: Callable[[], Corpus]
) -> Embedder:
    """The encoder as it is, or the fitted model with its own encoder settings.

    Args:
        model: As in :func:`encode`.
        method: The same.
        asked: Arguments of the encoder.
        given: What is encoded, where its tokens are to be counted.

    Raises:
        UserError: If these do not fit together.
    """
    if model is None:
        if method not in (None, "raw"):
            raise UserError(f"method: received {method!r}; allowed with model, the run folder of a finished `fit`")
        plain = SentenceEncoder.from_pretrained(**asked)
        weigh_tokens(plain, lambda: choose_counted(plain.count_over, given, lambda: given().sentences, load_corpus))
        return Embedder(plain)
    embedder = load(model, method, path=None if asked["path"] == SAMPLE_PATH else asked["path"])
    encoder = embedder.encoder
    described = {**encoder.describe(), "layers": encoder.layers}
    for name in ("layers", "pooling", "max_length", "prompt", "modules"):
        wanted, fitted = asked.get(name), described[name]
        same = resolve_layers(wanted, encoder.num_layers) if name == "layers" and wanted is not None else wanted
        if wanted is not None and same != fitted:
            raise UserError(f"encoder.{name}: received {wanted!r}; allowed with {model}: {fitted!r}, as fitted")
    return embedder

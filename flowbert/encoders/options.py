"""Which encoders to use, as plain values; path, layers and pooling may be lists."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from flowbert.data.files import as_list
from flowbert.encoders.base import Encoder
from flowbert.encoders.encoder import AveragedLayers, SentenceEncoder
from flowbert.encoders.folder import load_encoder
from flowbert.encoders.layers import LayerSpec, expand_layers
from flowbert.encoders.pooling import POOLER, parse_pooling
from flowbert.errors import UserError


@dataclass(frozen=True)
class EncoderOptions:
    """Encoders to open, see :class:`~flowbert.encoders.SentenceEncoder`.

    Attributes:
        path: Folder, hub name (``owner/name@revision`` too), run folder of a trained encoder,
            ``builtin-sample``, or text file of word vectors.
        revision: Commit, branch or tag on the hub.
        layers: ``last``, ``last2``, ``first_last``, ``embedding_last``, or hidden states to
            average, ``1,12``; ``singles``, ``pairs``, ``triples`` for all sets of a size.
        pooling: Pooling over tokens, such as ``mean`` or ``zipf:cls=16``.
        max_length: Tokens after which a sentence is cut; 0 for as many as the network can read.
        dtype: ``float32``, ``float16`` or ``bfloat16``.
        prompt: Text before every sentence.
        max_words: Word vectors to read.
    """

    path: str | list[str] = "builtin-sample"
    revision: str | None = None
    layers: str | int | list[Any] | None = None
    pooling: str | list[str] | None = None
    max_length: int | None = None
    dtype: str = "float32"
    prompt: str | None = None
    max_words: int | None = None


def open_encoders(
    options: "EncoderOptions | Encoder | str",
    count_over: Sequence[str] = (),
    device: torch.device | str = "cpu",
) -> list[Encoder]:
    """Open every combination of path, layers and pooling; each network is loaded once.

    Args:
        options: The options, a path, or an encoder as it is.
        count_over: Sentences whose tokens ``idf`` and ``sif`` count.
        device: Device of the networks.

    Raises:
        UserError: If an encoder cannot be loaded, or an option does not fit it.
    """
    if isinstance(options, str):
        options = EncoderOptions(options)
    if not isinstance(options, EncoderOptions):
        return [options]
    encoders: list[Encoder] = []
    for path in as_list(options.path, "path"):
        poolings = as_list(options.pooling, "pooling")
        # The pooler is a layer of its own: with it, the network is another one.
        with_pooler = [text for text in poolings if parse_pooling(text).name == POOLER]
        without = [text for text in poolings if text not in with_pooler]
        for group in (without, with_pooler) if poolings else (None,):
            if group is None or group:
                encoders += _open(path, options, group, count_over, device)
    return encoders


def open_encoder(
    options: "EncoderOptions | Encoder | str",
    count_over: Sequence[str] = (),
    device: torch.device | str = "cpu",
) -> Encoder:
    """:func:`open_encoders` where one encoder is expected.

    Raises:
        UserError: If the options name several, or it cannot be opened.
    """
    encoders = open_encoders(options, count_over, device)
    if len(encoders) != 1:
        raise UserError(
            f"encoder: received {len(encoders)} of path, layers and pooling; expected one"
        )
    return encoders[0]


def _open(
    path: str,
    options: EncoderOptions,
    poolings: Sequence[str] | None,
    count_over: Sequence[str],
    device: torch.device | str,
) -> list[Encoder]:
    specs = _layer_specs(options.layers)
    single = (
        specs[0]
        if len(specs) == 1 and specs[0] not in ("singles", "pairs", "triples")
        else None
    )
    first = load_encoder(
        path,
        revision=options.revision,
        layers=single if single is not None or not specs else "last",
        pooling=None if poolings is None else poolings[0],
        max_length=options.max_length,
        dtype=options.dtype,
        prompt=options.prompt,
        max_words=options.max_words,
        count_over=count_over,
    )
    if not isinstance(first, SentenceEncoder):
        others = [
            load_encoder(
                path, pooling=text, count_over=count_over, max_words=options.max_words
            )
            for text in (poolings or [])[1:]
        ]
        return [first, *others]
    first.to(device)
    sets = expand_layers(specs, first.num_layers) or [first.layers]
    numbers = sorted({number for layers in sets for number in layers})
    encoders: list[Encoder] = []
    each_pooling: Sequence[str | None] = poolings or [None]
    for pooling in each_pooling:
        variant = first.variant(pooling=pooling, count_over=count_over)
        if len(sets) > len(numbers) and variant.pooling.linear:
            parts = {number: variant.variant(layers=number) for number in numbers}
            encoders += [
                AveragedLayers([parts[number] for number in layers]) for layers in sets
            ]
        else:
            encoders += [variant.variant(layers=layers) for layers in sets]
    return encoders


def _layer_specs(value: str | int | list[Any] | None) -> list[LayerSpec]:
    """Sets of layers: a name or numbers are one set, a list with names or lists several."""
    if value is None:
        return []
    if isinstance(value, str):
        names = as_list(value, "layers")
        return (
            [value]
            if all(name.lstrip("-").isdigit() for name in names)
            else list(names)
        )
    if isinstance(value, int) or all(isinstance(item, int) for item in value):
        return [value]
    return list(value)

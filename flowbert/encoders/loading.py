"""Opening encoders: by path, template, layers and pooling, which may be lists."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from inspect import signature
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import nn

from flowbert.data.text_files import COMPRESSIONS, as_list, user_path
from flowbert.encoders.base import Encoder
from flowbert.encoders.custom import CustomEncoder
from flowbert.encoders.encoder import SentenceEncoder
from flowbert.encoders.folders import (
    SENTENCE_TRANSFORMER,
    LibraryNeededError,
    is_sentence_transformer,
)
from flowbert.encoders.layers import SIZES, LayerSpec, expand_layers
from flowbert.encoders.pooling import NetworkPooling, make_pooling
from flowbert.encoders.template import TEMPLATES
from flowbert.errors import UserError, first_line, warn
from flowbert.numbers import Count
from flowbert.progress import tell
from flowbert.registry import import_object

_SENTENCE_TRANSFORMER_ENCODER = f"{SENTENCE_TRANSFORMER}.SentenceTransformerEncoder"
_TEXT = (".txt", ".vec", *COMPRESSIONS)


@dataclass(frozen=True)
class EncoderOptions:
    """Encoders to open, see :class:`~flowbert.encoders.SentenceEncoder`.

    Attributes:
        path: Folder, hub name (``owner/name@revision`` too), run folder of a trained encoder,
            ``builtin-sample``, or text file of word vectors; ``compare`` accepts several: ``a,b``.
        revision: Commit, branch or tag on the hub.
        layers: ``last``, ``last2``, ``first_last``, ``embedding_last``, or indices of the hidden
            states to average, such as ``1,12``. None for those of the folder, else ``last``.
            ``compare`` also accepts ``singles``, ``pairs`` and ``triples``, all sets
            of that size, and several: ``last,first_last`` or ``[[1,12],last]``.
        pooling: Pooling over tokens, such as ``mean`` or ``zipf:cls=16``. None for that of the
            folder or of the template, else ``mean``. ``compare`` accepts several: ``mean,cls``.
        max_length: Tokens after which a sentence is cut; 0 for the positions of the network. None
            for that of the folder, else 512 of a decoder and 128 of other networks.
        dtype: ``float32``, ``float16``, ``bfloat16`` or ``float64``.
        template: Text around every sentence, with ``{}`` in its place, or ``prompteol``,
            ``pretended-cot``, ``knowledge``, ``echo``. ``compare`` also accepts several: names such
            as ``prompteol,echo``, or a list.
        sink_token: Token in front of every sentence of a decoder that is not pooled. None for the
            one that its tokenizer writes, else ``<|endoftext|>``, BOS or EOS; empty for none.
        views: Layers, poolings and templates whose vectors are concatenated, such as
            ``[{layers: 1}, {layers: last, pooling: cls}]``.
        max_words: Number of word vectors to read.
    """

    path: str | list[str] = "builtin-sample"
    revision: str | None = None
    layers: str | int | list[Any] | None = None
    pooling: str | list[str] | None = None
    max_length: Count | None = None
    dtype: str = "float32"
    template: str | list[Any] | None = None
    sink_token: str | None = None
    views: list[Any] | None = None
    max_words: Count | None = None


def open_encoders(
    options: Any,
    count_over: Sequence[str] = (),
    device: torch.device | str = "cpu",
) -> list[Encoder]:
    """Open every combination of path, template, layers and pooling; each network is loaded once.

    Args:
        options: The options, a path, an encoder as it is, another object with ``encode`` or a
            function (see :class:`flowbert.encoders.custom.CustomEncoder`), or a list of these.
        count_over: Sentences whose tokens ``idf`` and ``sif`` count.
        device: Device of the networks, see :func:`choose_device`.

    Raises:
        UserError: If an encoder cannot be loaded, an option does not fit it, or the device is not
            available.
    """
    device = choose_device(device)
    if isinstance(options, list | tuple):
        return [x for each in options for x in open_encoders(each, count_over, device)]
    if isinstance(options, str):
        options = EncoderOptions(options)
    if is_sentence_transformer(options):
        return [import_object(_SENTENCE_TRANSFORMER_ENCODER)(options)]
    if not isinstance(options, EncoderOptions):
        is_encoder = hasattr(options, "backbone_key")
        return [options if is_encoder else CustomEncoder(options)]
    groups: dict[bool, list[str | None]] = {False: [], True: []}
    given = options.pooling
    if not isinstance(given, list):
        given = as_list(given, "pooling")
    for pooling in given or [None]:
        made = None if pooling is None else make_pooling(pooling)
        groups[isinstance(made, NetworkPooling)].append(pooling)
    return [
        encoder
        for path in as_list(options.path, "path")
        # The pooler is a layer: with it, the network is another one.
        for poolings in groups.values()
        if poolings
        for encoder in _open(path, options, poolings, count_over, device)
    ]


def choose_device(device: torch.device | str) -> torch.device:
    """A device by its name; ``auto`` for the one that a Trainer would choose.

    Raises:
        UserError: If it is not available.
    """
    if device == "auto":
        backends = {"cuda": torch.cuda, "mps": torch.backends.mps, "cpu": torch.cpu}
        return torch.device(
            next(name for name, backend in backends.items() if backend.is_available())
        )
    try:
        torch.empty(0, device=device)
        return torch.device(device)
    # Without CUDA in torch it is an AssertionError.
    except (RuntimeError, AssertionError) as error:
        raise UserError(
            argument="device",
            received=str(device),
            expected=f"an available device ({first_line(error)})",
        ) from error


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
            f"received {len(encoders)} of path, template, layers and pooling; expected one",
            argument="encoder",
        )
    return encoders[0]


def _open(
    path: str,
    options: EncoderOptions,
    poolings: Sequence[str | None],
    count_over: Sequence[str],
    device: torch.device | str,
) -> list[Encoder]:
    specs = _layer_specs(options.layers)
    # All pairs, say, are known once the network is loaded: with one of the other sets, or the last.
    single = [spec for spec in specs if spec not in tuple(SIZES)]
    templates: list[Any] = [options.template]
    if isinstance(options.template, list):
        templates = options.template or [None]
    elif options.template and set(options.template.split(",")) <= TEMPLATES.keys():
        templates = options.template.split(",")
    settings = asdict(options) | {
        "path": path,
        "template": templates[0],
        "layers": single[0] if single else "last" if specs else None,
        "count_over": count_over,
    }
    first = load_encoder(**settings | {"pooling": poolings[0]})
    if isinstance(first, nn.Module):
        first.to(device)
    if not isinstance(first, SentenceEncoder):
        others = poolings[1:]
        return [first, *(load_encoder(**settings | {"pooling": x}) for x in others)]
    if first.backbone.folder.has_map:
        warn(
            f"encoder: {path} is a model, of which the encoder is used without the map; "
            "encode --model and compare --methods take the whole model",
            3,
        )
    usual = first.backbone.folder.reading["layers"]
    chosen = [usual if spec is None else spec for spec in specs or [None]]
    sets = expand_layers(chosen, first.num_layers)
    few_layers = len({number for layers in sets for number in layers}) < len(sets)
    encoders: list[Encoder] = []
    tell(f"{path}: pooling {', '.join(str(x or first.pooling) for x in poolings)}")
    for template, pooling in product(templates, poolings):
        pooled = SentenceEncoder(
            first.backbone,
            pooling=pooling,
            max_length=options.max_length,
            template=template,
            sink_token=options.sink_token,
            count_over=count_over,
        )
        for layers in sets:
            encoder = pooled.read(layers=layers)
            encoder.by_layer = few_layers
            encoders.append(encoder)
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


def load_encoder(path: str | Path = "builtin-sample", **settings: Any) -> Encoder:
    """Load an encoder.

    A text file is opened as :class:`~flowbert.extras.word_vectors.WordVectors`; a folder of
    sentence-transformers with modules such as Dense or settings such as ``truncate_dim``, unless
    layers or pooling are given, as
    :class:`~flowbert.extras.sentence_transformer.SentenceTransformerEncoder`; everything else as
    :class:`SentenceEncoder`.

    Args:
        path: File, folder, run folder, hub name, or ``builtin-sample``.
        settings: Arguments of these classes; None is the default, and those of another class are
            ignored.

    Raises:
        UserError: If it cannot be loaded, or a setting has a wrong value.
    """
    path = str(path)
    given = {name: value for name, value in settings.items() if value is not None}
    file = user_path(path)
    extra = "views.ViewsEncoder" if "views" in given else None
    if file.is_file() or (file.suffix in _TEXT and not file.is_dir()):
        extra = "word_vectors.WordVectors"
    encoder: Encoder
    if extra is not None:
        make = import_object(f"flowbert.extras.{extra}")
        taken = signature(make).parameters
        encoder = make(path, **{x: given[x] for x in given if x in taken})
        return encoder
    given.pop("max_words", None)
    try:
        return SentenceEncoder(path, **given)
    except LibraryNeededError as error:
        if {"layers", "pooling"} & given.keys() or not given.get("frozen", True):
            raise
        make = import_object(_SENTENCE_TRANSFORMER_ENCODER)
        encoder = make(path, revision=given.get("revision"), opened=error.model)
        return encoder

"""Opening encoders: by path, template, layers and pooling, which may be lists."""

from collections.abc import Mapping, Sequence
from inspect import signature
from itertools import product
from numbers import Integral
from pathlib import Path
from typing import Any

import torch

from flowbert.data.text_files import COMPRESSIONS, as_list, user_path
from flowbert.encoders.base import CustomEncoder, Embedder
from flowbert.encoders.checkpoint import load_backbone
from flowbert.encoders.encoder import SentenceEncoder
from flowbert.encoders.folders import (
    SENTENCE_TRANSFORMER,
    LibraryNeededError,
    is_sentence_transformer,
)
from flowbert.encoders.layers import LayerSpec, expand_layers
from flowbert.encoders.template import CHATS, TEMPLATES
from flowbert.errors import UserError, first_line, warn
from flowbert.options import EncoderOptions
from flowbert.registry import import_object

_OF_VIEWS = {"layers", "pooling", "template", "sink_token"}
_TEXT = (".txt", ".vec", *COMPRESSIONS)


def open_encoders(
    options: Any,
    count_over: Sequence[str] = (),
    device: torch.device | str = "cpu",
) -> list[Embedder]:
    """Open every combination of path, template, layers and pooling; each network is loaded once.

    Args:
        options: The options, a path, an encoder, another object with ``encode`` or a function (see
            :class:`flowbert.encoders.base.CustomEncoder`), or a list of these.
        count_over: Sentences whose tokens ``idf`` and ``sif`` count.
        device: Device of the networks, see :func:`choose_device`.

    Raises:
        UserError: If an encoder cannot be loaded, an option does not fit it, or the device is not
            available.
    """
    device = choose_device(device)
    if isinstance(options, list | tuple):
        return [x for each in options for x in open_encoders(each, count_over, device)]
    options = EncoderOptions.of(options)
    if is_sentence_transformer(options):
        wrap = import_object(f"{SENTENCE_TRANSFORMER}.SentenceTransformerEncoder")
        return [wrap(options)]
    if not isinstance(options, EncoderOptions):
        is_encoder = isinstance(options, Embedder)
        encoder: Any = options if is_encoder else CustomEncoder(options)
        return [encoder]
    return [
        encoder
        for path in as_list(options.path, "path")
        for encoder in _open(path, options, count_over, device)
    ]


def choose_device(device: torch.device | str) -> torch.device:
    """Find a device by its name; ``auto`` for the device that a Trainer would choose.

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
    options: "EncoderOptions | Embedder | str",
    count_over: Sequence[str] = (),
    device: torch.device | str = "cpu",
) -> Embedder:
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
    path: str, options: EncoderOptions, count_over: Sequence[str], device: torch.device
) -> list[Embedder]:
    """Encoders of a path with each combination of template, pooling and layers."""
    settings = {**vars(options), "path": path, "count_over": count_over}
    poolings = _as_items(options.pooling, "pooling")
    if _other_class(path, settings):
        return [
            load_encoder(**settings | {"pooling": pooling}).to(device)
            for pooling in poolings
        ]
    is_changed = options.layers is not None or options.pooling is not None
    try:
        backbone = load_backbone(
            path,
            options.revision,
            options.dtype,
            options.device_map,
            is_changed=is_changed,
        )
    except LibraryNeededError as error:
        if error.encoder is None:
            raise
        return [error.encoder.to(device)]
    if backbone.folder.has_map:
        warn(
            f"encoder: {path} is a model, of which the encoder is used without the map; "
            "encode --model and compare --methods take the whole model",
            3,
        )
    backbone = backbone.to(device)
    usual = backbone.folder.reading["layers"]
    specs = [usual if spec is None else spec for spec in _layer_specs(options.layers)]
    sets = expand_layers(specs, backbone.num_layers)
    few_layers = len({number for layers in sets for number in layers}) < len(sets)
    encoders: list[SentenceEncoder] = []
    for template, pooling in product(_templates(options.template), poolings):
        first = SentenceEncoder(
            backbone,
            layers=sets[0],
            pooling=pooling,
            max_length=options.max_length,
            template=template,
            sink_token=options.sink_token,
            count_over=count_over,
        )
        encoders += [first, *(first.read(layers=layers) for layers in sets[1:])]
    for encoder in encoders:
        encoder.by_layer = few_layers
    return list(encoders)


def _as_items(value: str | list[Any] | None, argument: str) -> list[Any]:
    """Values of an option; None stands for the value of the folder or the template."""
    items = value if isinstance(value, list) else as_list(value, argument)
    return items or [None]


def _layer_specs(value: str | int | list[Any] | None) -> list[LayerSpec | None]:
    """Sets of layers: a name or numbers are one set, a list with names or lists several.

    None stands for the layers of the folder.
    """
    if isinstance(value, str):
        names = as_list(value, "layers")
        is_one = all(name.lstrip("-").isdigit() for name in names)
        return [value] if is_one else list(names)
    if isinstance(value, list) and not all(isinstance(x, Integral) for x in value):
        return list(value)
    return [value]


def _templates(value: str | list[Any] | None) -> list[Any]:
    """Templates: a list, names separated by commas, or one text, which may have commas."""
    names = {*TEMPLATES, *CHATS}
    is_text = isinstance(value, str) and not set(value.split(",")) <= names
    return [value] if is_text else _as_items(value, "template")


def load_encoder(path: str | Path = "builtin-sample", **settings: Any) -> Any:
    """Load an encoder.

    A text file is opened as :class:`~flowbert.extras.word_vectors.WordVectors`; a folder of
    sentence-transformers with modules such as Dense or settings such as ``truncate_dim``, unless
    layers or pooling are given, as
    :class:`~flowbert.extras.sentence_transformer.SentenceTransformerEncoder`; everything else as
    :class:`SentenceEncoder`.

    Args:
        path: File, folder, run folder, hub name, or ``builtin-sample``.
        settings: Arguments of these classes; None is the default. Arguments of another class are
            ignored.

    Raises:
        UserError: If it cannot be loaded, or a setting has a wrong value.
    """
    path = str(path)
    given = {name: value for name, value in settings.items() if value is not None}
    if other := _other_class(path, given):
        make = import_object(f"flowbert.extras.{other}")
        taken = signature(make).parameters
        outside = sorted(_OF_VIEWS & given.keys())
        if "views" in taken and outside:
            raise UserError(
                f"received {', '.join(outside)} with views; expected entries of the views",
                argument="encoder",
            )
        return make(path, **{x: given[x] for x in given if x in taken})
    given.pop("max_words", None)
    try:
        return SentenceEncoder(path, **given)
    except LibraryNeededError as error:
        if error.encoder is None:
            raise
        return error.encoder


def _other_class(path: str, settings: Mapping[str, Any]) -> str | None:
    """Class below ``flowbert.extras`` of a file of word vectors, and of views."""
    file = user_path(path)
    is_text = file.is_file() and file.suffix != ".gguf"
    if is_text or (file.suffix in _TEXT and not file.is_dir()):
        return "word_vectors.WordVectors"
    return None if settings.get("views") is None else "views.ViewsEncoder"

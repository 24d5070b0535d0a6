"""Embeddings to compare on: encoders x poolings x layers, each encoder read once; or static word vectors."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from jsonargparse import ArgumentParser, Namespace

from flowbert.cli.options import as_list
from flowbert.encoders import StaticEncoder, count_words, name_layers
from flowbert.encoders.layerwise import Layers, LayerwiseEncoder, expand_layers, single_layers
from flowbert.errors import UserError
from flowbert.evaluation import Source
from flowbert.store.embedding_store import EmbeddingStore, Encoder
from flowbert.store.layer_stores import LayerStores

_NO_LIMIT = 4096  # tokens, for an encoder that has none: longer than any sentence

LayerSpec = str | int | list[int]
LayerSpecs = str | int | list[str | int | list[int]] | None


@dataclass(frozen=True)
class EncoderOptions:
    """The options ``--encoder.*`` of ``evaluate``: what is a list is compared item by item."""

    paths: tuple[str, ...]
    revision: str | None
    layers: tuple[LayerSpec, ...]
    poolings: tuple[str, ...]
    max_length: int | None
    dtype: str
    sif: float | None
    max_words: int | None

    @classmethod
    def of(cls, options: Namespace) -> "EncoderOptions":
        """Read the parsed group."""
        return cls(
            paths=tuple(as_list(options.path, "--encoder.path")),
            revision=options.revision,
            layers=layer_specs(options.layers),
            poolings=() if options.pooling is None else tuple(as_list(options.pooling, "--encoder.pooling")),
            max_length=options.max_length,
            dtype=options.dtype,
            sif=options.sif,
            max_words=options.max_words,
        )


def add_source_options(parser: ArgumentParser) -> None:
    """Add the group ``encoder``; path, layers and pooling take lists."""
    group = parser.add_argument_group("What to compare on")
    names = str | list[str]
    group.add_argument(
        "--encoder.path",
        type=names,
        default="builtin-sample",
        help="Comma-separated: folders, hub names, run folders of trained encoders, builtin-sample, or text files of "
        "word vectors (GloVe, word2vec; .gz too), which are averaged.",
    )
    group.add_argument("--encoder.revision", type=str | None, default=None, help="Commit, branch or tag on the hub.")
    group.add_argument(
        "--encoder.layers",
        type=LayerSpecs,
        default=None,
        help="Hidden states to average: last, last2, first_last, embedding_last, or numbers (0 is the embedding layer, "
        "1 the first block, -1 the last): '1,12' is one setting. Several settings: last,first_last, or a list "
        "'[last, [1, 2, 4]]'; singles, pairs, triples stand for all of that size. Default: as trained, else last.",
    )
    group.add_argument(
        "--encoder.pooling",
        type=names | None,
        default=None,
        help="Comma-separated: mean, cls, cls_pooler, max. Default: as trained, else mean.",
    )
    group.add_argument(
        "--encoder.max_length",
        type=int | None,
        default=None,
        help="Tokens after which a sentence is cut; 0: as many as the encoder can read. Default: as trained, else 128.",
    )
    group.add_argument("--encoder.dtype", type=str, default="float32", help="float32, float16 or bfloat16.")
    group.add_argument(
        "--encoder.sif",
        type=float | None,
        default=None,
        help="Word vectors: weight each word by a / (a + frequency) with this a, e.g. 1e-3; frequencies are those of "
        "the tasks' sentences. Default: plain mean.",
    )
    group.add_argument(
        "--encoder.max_words", type=int | None, default=None, help="Word vectors: read only the first ones."
    )


def layer_specs(value: LayerSpecs) -> tuple[LayerSpec, ...]:
    """Layer settings as the user gives them; none means the encoder's own.

    Whole numbers alone are one setting, in a text as in a list; whatever has a name among them is several.

    Example:
        >>> layer_specs("1,-1"), layer_specs([1, -1])
        (('1,-1',), ([1, -1],))
        >>> layer_specs("last,first_last"), layer_specs(["last", [1, 2, 4]])
        (('last', 'first_last'), ('last', [1, 2, 4]))
    """
    if value is None:
        return ()
    if isinstance(value, int):
        return (value,)
    if isinstance(value, str):
        parts = [part.strip() for part in value.split(",") if part.strip()]
        return (value,) if all(_is_number(part) for part in parts) else tuple(parts)
    numbers = [item for item in value if isinstance(item, int)]
    return (numbers,) if len(numbers) == len(value) else tuple(value)


def _is_number(text: str) -> bool:
    return text.lstrip("-").isdigit()


def load_sources(
    options: EncoderOptions, device: torch.device, store_dir: str | None, corpus: Callable[[], Iterable[str]]
) -> list[Source]:
    """Load every encoder once per pooling, and make a source of each layer setting.

    Args:
        options: The options.
        device: Where encoders run.
        store_dir: Folder of the embedding stores; None for the default one.
        corpus: Gives the sentences that word frequencies are counted over.

    Raises:
        UserError: If an encoder cannot be loaded or an option does not fit it.
    """
    sources = []
    for path in options.paths:
        if Path(path).expanduser().is_file():
            sources.append(_static(path, options, store_dir, corpus))
            continue
        for pooling in options.poolings or (None,):
            sources += _contextual(path, pooling, options, device, store_dir)
    return sources


def _contextual(
    path: str, pooling: str | None, options: EncoderOptions, device: torch.device, store_dir: str | None
) -> list[Source]:
    first = next((spec for spec in options.layers if spec not in ("singles", "pairs", "triples")), None)
    encoder = LayerwiseEncoder.from_pretrained(
        path,
        revision=options.revision,
        layers="last" if first is None and options.layers else first,
        pooling=pooling,
        max_length=options.max_length or None,
        dtype=options.dtype,
    ).to(device)
    if options.max_length == 0:
        encoder.max_length = encoder.longest or _NO_LIMIT
    settings = expand_layers(options.layers, encoder.num_layers) if options.layers else (encoder.layers,)
    stores = _stores(encoder, settings, store_dir)
    alone = len(settings) == 1
    return [
        _layer_source(encoder, layers, stores, (layers,) if alone else single_layers(layers, encoder.pooling))
        for layers in settings
    ]


def _stores(encoder: LayerwiseEncoder, settings: Sequence[Layers], store_dir: str | None) -> LayerStores:
    """One pass for all settings; a single one has the store that `fit` uses, too."""
    several = len(settings) > 1
    parts = [part for layers in settings for part in (single_layers(layers, encoder.pooling) if several else (layers,))]
    distinct = sorted(set(parts))
    encoder.select(distinct)
    keys: dict[Hashable, dict[str, Any]] = {part: encoder.key_of(part) for part in distinct}
    return LayerStores(encoder, encoder.layer_dim, keys, partial(_open, store_dir))


def _open(store_dir: str | None, encoder: Encoder) -> EmbeddingStore:
    return EmbeddingStore(None if store_dir is None else Path(store_dir), encoder)


def _layer_source(encoder: LayerwiseEncoder, layers: Layers, stores: LayerStores, parts: Sequence[Layers]) -> Source:
    description = encoder.describe()
    columns = {
        **{name: description[name] for name in ("pooling", "revision", "dtype", "max_length")},
        "encoder": description["path"],
        "layers": name_layers(layers, encoder.num_layers),
        "layer_numbers": layers,
    }
    return Source(
        columns=columns,
        key=encoder.key_of(layers),
        dim=encoder.layer_dim,
        embed=lambda sentences: stores.embeddings(sentences, parts),
        prepare=lambda sentences: stores.add(sentences, progress=True),
    )


def _static(path: str, options: EncoderOptions, store_dir: str | None, corpus: Callable[[], Iterable[str]]) -> Source:
    if options.sif is not None and not options.sif > 0:
        raise UserError(f"--encoder.sif: received {options.sif}; allowed: a number above 0")
    if options.sif is None:
        encoder = StaticEncoder.from_file(path, max_words=options.max_words)
    else:
        counts = count_words(corpus())
        encoder = StaticEncoder.from_file(path, max_words=options.max_words, counts=counts, sif_a=options.sif)
    store = _open(store_dir, encoder)
    pooling = "mean" if options.sif is None else f"sif {options.sif:g}"
    return Source(
        columns={"encoder": path, "layers": "words", "pooling": pooling, "dtype": "float32"},
        key=encoder.key(),
        dim=encoder.dim,
        embed=store.embeddings,
        prepare=lambda sentences: store.add(sentences, progress=True),
    )

"""Frozen embeddings to compare methods on: encoders x poolings x layers, each encoder read once; word vectors."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from flowbert.encoders import SentenceEncoder, StaticEncoder, count_words, name_layers
from flowbert.encoders.layerwise import Layers, LayerwiseEncoder, expand_layers, single_layers
from flowbert.errors import UserError
from flowbert.evaluation.grid import Source
from flowbert.evaluation.request import as_list
from flowbert.store.embedding_store import EmbeddingStore, Encoder
from flowbert.store.layer_stores import LayerStores

_NO_LIMIT = 4096  # tokens, for an encoder that has none: longer than any sentence

LayerSpec = str | int | list[int]
LayerSpecs = str | int | list[str | int | list[int]] | None


@dataclass(frozen=True)
class EncoderSettings:
    """Which embeddings to compare on; path, layers and pooling take lists.

    Args:
        path: Comma-separated, or a list: folders, hub names, run folders of trained encoders, builtin-sample, or text
            files of word vectors (GloVe, word2vec; .gz too), which are averaged.
        revision: Commit, branch or tag on the hub.
        layers: Hidden states to average: last, last2, first_last, embedding_last, or numbers (0 is the embedding layer,
            1 the first block, -1 the last): '1,12' is one setting. Several settings: last,first_last, or a list
            '[last, [1, 2, 4]]'; singles, pairs, triples stand for all of that size. Default: as trained, else last.
        pooling: Comma-separated, or a list, of :data:`flowbert.encoders.POOLINGS`. Default: as trained, else mean.
        max_length: Tokens after which a sentence is cut; 0: as many as the encoder can read. Default: as trained, else
            128.
        dtype: float32, float16 or bfloat16.
        sif: Word vectors: weight each word by a / (a + frequency) with this a, e.g. 1e-3; frequencies are those of the
            tasks' sentences. Default: plain mean.
        max_words: Word vectors: read only the first ones.

    Raises:
        UserError: If ``sif`` is not above 0.
    """

    path: str | list[str] = "builtin-sample"
    revision: str | None = None
    layers: LayerSpecs = None
    pooling: str | list[str] | None = None
    max_length: int | None = None
    dtype: str = "float32"
    sif: float | None = None
    max_words: int | None = None

    def __post_init__(self) -> None:
        if self.sif is not None and not self.sif > 0:
            raise UserError(f"sif: received {self.sif}; allowed: a number above 0")


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
        names = as_list(value, "layers")
        return (value,) if all(name.lstrip("-").isdigit() for name in names) else tuple(names)
    numbers = [item for item in value if isinstance(item, int)]
    return (numbers,) if len(numbers) == len(value) else tuple(value)


def load_embeddings(
    settings: EncoderSettings | SentenceEncoder,
    device: torch.device | str = "cpu",
    store_dir: str | Path | None = None,
    corpus: Callable[[], Iterable[str]] = list,
) -> list[Source]:
    """Load every encoder once per pooling; each of its layer settings, fed by the same pass, is one item.

    Args:
        settings: The encoders, or one that is loaded.
        device: Where they run.
        store_dir: Folder of the embedding stores; None for the default one.
        corpus: Gives the sentences that word frequencies are counted over.

    Raises:
        UserError: If an encoder cannot be loaded or an option does not fit it.
    """
    if isinstance(settings, SentenceEncoder):
        return [_stored(settings, encoder_columns(settings), store_dir)]
    found = []
    for path in as_list(settings.path, "path"):
        if Path(path).expanduser().is_file():
            found.append(_word_vectors(path, settings, store_dir, corpus))
            continue
        for pooling in as_list(settings.pooling, "pooling") or (None,):
            found += _layers_of(path, pooling, settings, device, store_dir)
    return found


def _layers_of(
    path: str, pooling: str | None, settings: EncoderSettings, device: torch.device | str, store_dir: str | Path | None
) -> list[Source]:
    """One pass for all layer settings; a single one has the store that ``fit`` uses, too."""
    specs = layer_specs(settings.layers)
    first = next((spec for spec in specs if spec not in ("singles", "pairs", "triples")), "last" if specs else None)
    encoder = LayerwiseEncoder.from_pretrained(
        path,
        revision=settings.revision,
        layers=first,
        pooling=pooling,
        max_length=settings.max_length or None,
        dtype=settings.dtype,
    ).to(device)
    if settings.max_length == 0:
        encoder.max_length = encoder.longest or _NO_LIMIT
    wanted = expand_layers(specs, encoder.num_layers) if specs else (encoder.layers,)
    stored = {layers: (layers,) if len(wanted) == 1 else single_layers(layers, encoder.pooling) for layers in wanted}
    distinct = sorted({each for averaged in stored.values() for each in averaged})
    encoder.select(distinct)
    keys: dict[Hashable, Any] = {layers: encoder.key_of(layers) for layers in distinct}
    stores = LayerStores(encoder, encoder.layer_dim, keys, lambda each: EmbeddingStore(store_dir, each))

    def source(layers: Layers, averaged: Sequence[Layers]) -> Source:
        return Source(
            columns=encoder_columns(encoder, layers),
            key=encoder.key_of(layers),
            dim=encoder.layer_dim,
            embed=lambda sentences: stores.embeddings(sentences, averaged),
            prepare=lambda sentences: stores.add(sentences, progress=True),
        )

    return [source(layers, averaged) for layers, averaged in stored.items()]


def _word_vectors(
    path: str, settings: EncoderSettings, store_dir: str | Path | None, corpus: Callable[[], Iterable[str]]
) -> Source:
    weighting: dict[str, Any] = {}
    if settings.sif is not None:
        weighting = {"counts": count_words(corpus()), "sif_a": settings.sif}
    encoder = StaticEncoder.from_file(path, max_words=settings.max_words, **weighting)
    pooling = "mean" if settings.sif is None else f"sif {settings.sif:g}"
    return _stored(encoder, {"encoder": path, "layers": "words", "pooling": pooling, "dtype": "float32"}, store_dir)


def _stored(encoder: Encoder, columns: dict[str, Any], store_dir: str | Path | None) -> Source:
    store = EmbeddingStore(store_dir, encoder)
    return Source(
        columns=columns,
        key=encoder.key(),
        dim=encoder.dim,
        embed=store.embeddings,
        prepare=lambda sentences: store.add(sentences, progress=True),
    )


def encoder_columns(encoder: SentenceEncoder, layers: Layers | None = None) -> dict[str, Any]:
    """Columns of a results row that say what the embeddings are; layers by name, if they have one, and number."""
    description = encoder.describe()
    layers = encoder.layers if layers is None else layers
    return {
        **{name: description[name] for name in ("pooling", "revision", "dtype", "max_length")},
        "encoder": description["path"],
        "layers": name_layers(layers, encoder.num_layers),
        "layer_numbers": layers,
    }

"""Frozen embeddings to compare methods on: encoders x poolings x layers, each encoder read once; word vectors."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch

from flowbert.data.corpus import Corpus
from flowbert.data.files import as_list
from flowbert.encoders import SentenceEncoder, StaticEncoder, count_words, name_layers
from flowbert.encoders.after_pooling import NONE
from flowbert.encoders.counting import Counted
from flowbert.encoders.forward import Setting
from flowbert.encoders.layerwise import LayerwiseEncoder, expand_layers, single_layers
from flowbert.encoders.pooling import POOLER, Pooling, make_pooling
from flowbert.encoders.token_counts import TokenCounts
from flowbert.encoders.tokens import begins_with_cls
from flowbert.errors import UserError
from flowbert.evaluation.grid import Source
from flowbert.processes import current
from flowbert.store.embedding_store import EmbeddingStore, Encoder
from flowbert.store.setting_stores import SettingStores
from flowbert.vectors import VectorTable

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
        pooling: Comma-separated, or a list, of :data:`flowbert.encoders.pooling.POOLINGS`, with options after colons:
            mean,idf,sif:a=0.01. Word vectors: mean, sif. Default: as trained, or as the folder says, else
            mean.
        max_length: Tokens after which a sentence is cut; 0: as many as the encoder can read. Default: as trained, or
            as the folder says, else 128.
        dtype: float32, float16 or bfloat16.
        prompt: Text before every sentence. Default: as trained, or as the folder says, else none.
        modules: What follows the pooling in a sentence-transformers folder: dense (up to the last Dense, the default),
            all (its Normalize as well), or none.
        counts: What the tokens are counted over that idf, sif and weighted_mean weigh: corpus (what is fitted on), run
            (all sentences that are measured), a run folder, or a corpus. Default: as trained, else corpus.
        max_words: Word vectors: read only the first ones.
    """

    path: str | list[str] = "builtin-sample"
    revision: str | None = None
    layers: LayerSpecs = None
    pooling: str | list[str] | None = None
    max_length: int | None = None
    dtype: str = "float32"
    counts: str | None = None
    prompt: str | None = None
    modules: str | None = None
    max_words: int | None = None


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
    settings: EncoderSettings | SentenceEncoder, device: torch.device | str = "cpu", store_dir: str | Path | None = None
) -> list[Source]:
    """Load every encoder once; each of its settings, layers and pooling, fed by the same pass, is one item.

    Args:
        settings: The encoders, or one that is loaded.
        device: Where they run.
        store_dir: Folder of the embedding stores; None for the default one.

    Raises:
        UserError: If an encoder cannot be loaded or an option does not fit it.
    """
    if isinstance(settings, SentenceEncoder):
        return [_stored(settings, encoder_columns(settings), store_dir)]
    found = []
    poolings = as_list(settings.pooling, "pooling")
    for path in as_list(settings.path, "path"):
        if Path(path).expanduser().is_file():
            found += [_word_vectors(path, make_pooling(each), settings, store_dir) for each in poolings or ["mean"]]
            continue
        # The pooler is a layer of its own, with which other poolings would be another encoder.
        apart = [each for each in poolings if make_pooling(each).name == POOLER]
        together = [each for each in poolings if each not in apart]
        for several in (together, apart) if poolings else (None,):
            if several is None or several:
                found += _settings_of(path, several, settings, device, store_dir)
    return found


def _settings_of(
    path: str,
    poolings: Sequence[str] | None,
    settings: EncoderSettings,
    device: torch.device | str,
    store_dir: str | Path | None,
) -> list[Source]:
    """One pass for all settings; a single one has the store that ``fit`` uses, too."""
    specs = layer_specs(settings.layers)
    first = next((spec for spec in specs if spec not in ("singles", "pairs", "triples")), "last" if specs else None)
    encoder = LayerwiseEncoder.from_pretrained(
        path,
        layers=first,
        pooling=None if poolings is None else poolings[0],
        max_length=settings.max_length,
        revision=settings.revision,
        dtype=settings.dtype,
        counts=settings.counts,
        prompt=settings.prompt,
        modules=settings.modules,
    ).to(device)
    wanted = expand_layers(specs, encoder.num_layers) if specs else (encoder.layers,)
    stores = SettingStores(encoder, lambda each: EmbeddingStore(store_dir, each))
    # What follows the pooling need not be linear: then an average of layers is no average of vectors.
    found = _Settings(encoder, stores, alone=len(wanted) == 1 or len(encoder.after_pooling) > 0)
    of = [make_pooling(each, encoder.tokenizer) for each in ([encoder.pooling] if poolings is None else poolings)]
    if encoder.counts is not None:
        of = [pooling.with_counts(encoder.counts, encoder.tokenizer) for pooling in of]
    return [found.source((layers, pooling)) for pooling in of for layers in wanted]


class _Settings:
    """Sources of one encoder, which share its pass."""

    def __init__(self, encoder: LayerwiseEncoder, stores: SettingStores, alone: bool) -> None:
        self._encoder, self._stores, self._alone = encoder, stores, alone
        self._counts = cache(self._count)

    def source(self, setting: Setting) -> Source:
        encoder, (layers, pooling) = self._encoder, setting
        averaged = (setting,) if self._alone else single_layers(setting)

        def prepare(sentences: Iterable[str]) -> None:
            self._stores.expect(sentences, averaged)
            self._stores.fill(current())

        @cache
        def with_counts(counted: Counted) -> Source:
            return self.source((layers, pooling.with_counts(self._counts(counted), encoder.tokenizer)))

        return Source(
            columns=encoder_columns(encoder, setting),
            key=encoder.key_of(setting),
            dim=encoder.layer_dim,
            embed=lambda sentences: self._stores.embeddings(sentences, averaged),
            prepare=prepare,
            expect=lambda sentences: self._stores.expect(sentences, averaged),
            with_counts=with_counts if pooling.counted and pooling.weights is None else None,
            halves=lambda: [self.source((layers, half)) for half in pooling.halves(encoder.tokenizer)],
            begins_with_cls=begins_with_cls(encoder.tokenizer),
        )

    def _count(self, counted: Counted) -> TokenCounts:
        if isinstance(counted, TokenCounts):
            return counted
        return self._encoder.count_tokens(counted.sentences, counted.name)


def _word_vectors(path: str, pooling: Pooling, settings: EncoderSettings, store_dir: str | Path | None) -> Source:
    columns = {"encoder": path, "layers": "words", "pooling": pooling.text, "dtype": "float32"}
    options = dict(pooling.options)
    if pooling.name not in ("mean", "sif") or options.get("special") or options.get("cls"):
        raise UserError(
            f"pooling: received {pooling.text!r}; allowed with word vectors ({path}): mean, sif, sif:a=0.01"
        )
    if settings.prompt:
        raise UserError(f"prompt: received {settings.prompt!r}; allowed with word vectors ({path}): none")
    encoder = StaticEncoder.from_file(path, max_words=settings.max_words)
    if pooling.name == "mean":
        return _stored(encoder, columns, store_dir)

    @cache
    def with_counts(counted: Counted) -> Source:
        if not isinstance(counted, Corpus):
            raise UserError("counts: received counts of an encoder's tokens; allowed with word vectors: a corpus")
        weighted = encoder.with_counts(count_words(counted.sentences), options["a"])
        return _stored(weighted, columns | {"pooling": f"{pooling.text} of {counted.name}"}, store_dir)

    return replace(_stored(encoder, columns, store_dir), with_counts=with_counts)


def _stored(encoder: Encoder, columns: dict[str, Any], store_dir: str | Path | None) -> Source:
    store = EmbeddingStore(store_dir, encoder)

    def prepare(sentences: Iterable[str]) -> None:
        store.share(sentences, current())

    return Source(columns=columns, key=encoder.key(), dim=encoder.dim, embed=store.embeddings, prepare=prepare)


def vector_source(table: VectorTable) -> Source:
    """Vectors from elsewhere; what is looked up is read from where they are, and stored nowhere else."""
    return Source(
        columns=encoder_columns(table), key=table.key(), dim=table.dim, embed=table.encode, prepare=lambda _: None
    )


def encoder_columns(encoder: SentenceEncoder | VectorTable, setting: Setting | None = None) -> dict[str, Any]:
    """Columns of a results row that say what the embeddings are: those of a setting, or of the encoder's own.

    Layers stand by name, if they have one, and number; a pooling by counts with what was counted: ``idf of target``. A
    prompt and modules after the pooling stand beside the encoder. Vectors from elsewhere have none of these.
    """
    if isinstance(encoder, VectorTable):
        return {"encoder": encoder.name, "layers": "none", "pooling": "none", "dtype": "float32"}
    description = encoder.describe()
    layers, pooling = encoder.settings[0] if setting is None else setting
    return {
        **{name: description[name] for name in ("revision", "dtype", "max_length")},
        "pooling": pooling.label,
        "encoder": _name(description),
        "layers": name_layers(layers, encoder.num_layers),
        "layer_numbers": layers,
    }


def _name(description: Mapping[str, Any]) -> str:
    name: str = description["path"]
    if description["modules"] != NONE:
        name += f"; modules {description['modules']}"
    if description["prompt"]:
        name += f"; prompt {description['prompt']!r}"
    return name

"""Which layers, pooling and map to use for a corpus, from its sentences alone."""

import itertools
import shlex
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch

from flowbert.analysis.cls_token import cls_is_informative
from flowbert.analysis.criterion import (
    MIN_SENTENCES,
    MIN_WORDS,
    cosine_statistics,
    criterion,
    make_views,
    resample_weights,
    sentences_with_views,
)
from flowbert.arrays import Floats
from flowbert.data.corpus import NAMED, Corpus, load_corpus
from flowbert.data.hub import hub_name
from flowbert.encoders import EncoderOptions, SentenceEncoder, open_encoder
from flowbert.encoders.layers import name_layers, resolve_layers
from flowbert.encoders.source import locate, read_settings
from flowbert.errors import FlowbertWarning, UserError
from flowbert.experiments.run import fit_map
from flowbert.maps import make_map
from flowbert.progress import bar
from flowbert.vectors import EmbeddingCache

ADVISED_LAYERS = ("embedding_last", "first_last", "last")
ADVISED_MAPS = (
    "raw",
    "whitening",
    "whitening:shrinkage=0.1",
    "whitening:shrinkage=0.3",
    "whitening:shrinkage=0.6",
    "whitening:shrinkage=0.8",
    "whitening:exponent=-0.25",
    "whitening:exponent=-0.35",
)
"""Layers and maps to choose from."""

MAP_LAYERS = "embedding_last"
MAP_POOLINGS = {True: "zipf:cls=16", False: "zipf"}
"""Layers and, by whether [CLS] is informative, pooling of every map: no criterion judges them."""

_VIEW_POOLINGS = ("mean", "mean:half=0", "mean:half=1")
_CRITERION_RESAMPLES = 200
_AS_GOOD = 0.99  # share of the best criterion from which raw vectors are preferred
_ADVICE_TEXT = """\
{table}

Criterion of the plain mean over tokens, {sentences} sentences. Higher is better; tied: the
difference to the first row is within its 95% interval.

Use {method}, layers {layers}, pooling {pooling}."""
_RAW_TEXT = """
Nothing is to be fitted:

    flowbert encode {encoder} {input} --output vectors.npy"""
_MAP_TEXT = """
Layers and pooling come with the map and are not judged. Answers to questions are found better with
pooling zipf; a classifier does better with raw vectors. Fit it, and compare it on your own pairs:

    flowbert fit --method {method} {encoder} {corpus}
    flowbert compare --methods raw,{method} {encoder} {corpus} --tasks PAIRS.csv"""
_SIMILARITY_TEXT = """

This is a sentence-transformers model. If it was trained on much data for similarity, maps cost
points even where the criterion prefers one."""
_OWN_TEXT = """

The encoder was made for layers {0} and pooling {1}, which the criterion does not judge: compare
them, too (--encoder.layers={0} --encoder.pooling={1})."""


@dataclass(frozen=True, eq=False)
class Advice:
    """What to use for a corpus; its text has reasons and the next commands.

    Attributes:
        candidates: A row per layers and method on the plain mean, the preferred one first: layers,
            method, criterion (higher is better), low and high (95% interval over the sentences),
            tied (another method, within the 95% interval of the difference to the preferred one).
        layers: Advised layers.
        pooling: Advised pooling.
        method: Advised map.
        text: Table, limits and commands.
    """

    candidates: pd.DataFrame
    layers: str
    pooling: str
    method: str
    text: str

    def __str__(self) -> str:
        return self.text


def advise(
    corpus: str = "builtin-sample",
    encoder: str | EncoderOptions | SentenceEncoder = "builtin-sample",
    *,
    nli: str = "hub",
    column: str | None = None,
    limit: int = 5000,
    seed: int = 0,
    cache: str | EmbeddingCache | None = None,
    device: str | torch.device = "auto",
) -> Advice:
    """Choose layers, pooling and map for a corpus from its sentences alone, without labels.

    Every map is fitted on the sentences and judged by how well it distinguishes their views from
    those of others (:mod:`flowbert.analysis.criterion`), on the plain mean over tokens. Raw
    vectors within 1% of the best are preferred. With a map come the embedding layer and the last,
    and the pooling ``zipf:cls=16``, or ``zipf`` if [CLS] is not informative. An encoder whose
    folder names another pooling than the mean, such as ``cls``, keeps its own without a map.
    docs/choosing-a-method.md measures what the advice is worth, and where it fails.

    Args:
        corpus: The sentences: files, ``hub:NAME``, ``nli``, or ``builtin-sample``.
        encoder: The encoder, its path, or its options without layers and pooling; those of an
            opened encoder play no role.
        nli: NLI pairs of the corpus ``nli``: ``hub``, ``builtin-sample``, or files.
        column: Column of the sentences in table files.
        limit: Largest number of distinct sentences of four words or more; each is encoded with a
            view of it.
        seed: Seed of the sample, the views and the resamples.
        cache: Folder of the embedding cache; in Python an ``EmbeddingCache``, too. None for
            ``FLOWBERT_CACHE``, or ``~/.cache/flowbert``.
        device: Device of the encoder, such as ``cuda:1``; ``auto`` for the GPU if there is one.

    Raises:
        UserError: If an argument is wrong, or there are fewer than 50 such sentences; nothing has
            been encoded then.

    Example:
        >>> advice = advise(limit=300)
        >>> advice.layers, advice.pooling
        ('embedding_last', 'zipf')
    """
    if limit < MIN_SENTENCES:
        raise UserError(
            argument="limit", received=limit, expected=f"{MIN_SENTENCES} or more"
        )
    loaded = load_corpus(corpus, nli=nli, column=column)
    useful = Corpus(loaded.name, sentences_with_views(loaded.sentences))
    if len(useful) < MIN_SENTENCES:
        raise UserError(
            f"received {len(useful)} distinct sentences of {MIN_WORDS} words or more; "
            f"expected {MIN_SENTENCES} or more",
            argument="corpus",
        )
    if isinstance(encoder, str):
        encoder = EncoderOptions(encoder)
    opened = _open(encoder, device)
    sentences = useful.sample(limit, seed).sentences
    views = make_views(sentences, seed)
    if not isinstance(cache, EmbeddingCache):
        cache = EmbeddingCache(cache)
    candidates = _judge(opened, sentences, views, cache, seed)
    layers, method = candidates.loc[0, ["layers", "method"]]
    pooling, text = "mean", _ADVICE_TEXT + _RAW_TEXT
    settings = read_settings(locate(opened.path, opened.backbone.revision).folder)
    depth = opened.num_layers
    own = name_layers(resolve_layers(settings.layers, depth), depth), settings.pooling
    has_own = settings.pooling != "mean"
    if method != "raw":
        informative = cls_is_informative(opened, sentences, views, cache)
        layers, pooling = MAP_LAYERS, MAP_POOLINGS[informative]
        text = _ADVICE_TEXT + _MAP_TEXT
        text += _SIMILARITY_TEXT if settings.modules else ""
        text += _OWN_TEXT.format(*own) if has_own else ""
    elif has_own:
        layers, pooling = own
    where = _commands(
        _changed(encoder) | {"layers": layers, "pooling": pooling}, corpus, nli, column
    )
    text = text.format(
        table=candidates.round(2).to_string(index=False),
        sentences=len(sentences),
        method=method,
        layers=layers,
        pooling=pooling,
        **where,
    )
    return Advice(candidates, layers, pooling, method, text)


def _commands(
    encoder: Mapping[str, Any], corpus: str, nli: str, column: str | None
) -> dict[str, str]:
    """Options of the next commands: encoder, corpus and input."""
    is_file = corpus not in NAMED and hub_name(corpus) is None
    nli = nli if corpus == "nli" else ""
    return {
        "encoder": _flags({f"encoder.{name}": each for name, each in encoder.items()}),
        "corpus": _flags({"corpus": corpus, "nli": nli, "column": column}),
        "input": _flags(
            {
                "input": corpus if is_file else "SENTENCES.txt",
                "column": column if is_file else "",
            }
        ),
    }


def _open(
    encoder: EncoderOptions | SentenceEncoder, device: str | torch.device
) -> SentenceEncoder:
    """The encoder, whose layers and pooling are still to be chosen."""
    if isinstance(encoder, EncoderOptions):
        for name in ("layers", "pooling"):
            if (value := getattr(encoder, name)) is not None:
                raise UserError(
                    argument=f"encoder.{name}",
                    received=value,
                    expected="none, as advise chooses it",
                )
        encoder = replace(encoder, pooling="mean")
    opened = open_encoder(encoder, device=device)
    if not isinstance(opened, SentenceEncoder):
        raise UserError(
            f"received {opened.path}; expected one with layers", argument="encoder"
        )
    return opened


def _changed(encoder: EncoderOptions | SentenceEncoder) -> dict[str, Any]:
    """Options of the encoder that are not what a command takes without them."""
    given = (
        encoder.describe() if isinstance(encoder, SentenceEncoder) else vars(encoder)
    )
    plain = vars(EncoderOptions(""))
    return {name: value for name, value in given.items() if value != plain[name]}


def _judge(
    encoder: SentenceEncoder,
    sentences: Sequence[str],
    views: Sequence[str],
    cache: EmbeddingCache,
    seed: int,
) -> pd.DataFrame:
    """The candidates of :class:`Advice`, from one pass of the encoder."""
    variants = {
        (layers, pooling): encoder.variant(layers=layers, pooling=pooling)
        for layers, pooling in [
            *itertools.product(ADVISED_LAYERS, _VIEW_POOLINGS),
            ("last", "cls"),
        ]
    }
    cache.fill(list(variants.values()), [*sentences, *views])
    weights = resample_weights(len(sentences), _CRITERION_RESAMPLES, seed)
    settings, values = [], []
    for layers in bar(ADVISED_LAYERS, "Fitting", unit="layers"):
        mean, even, odd = (variants[layers, pooling] for pooling in _VIEW_POOLINGS)
        parts = [(mean, sentences), (mean, views), (even, sentences), (odd, sentences)]
        rows = [torch.from_numpy(cache.rows(*part)[:]) for part in parts]
        for method in ADVISED_MAPS:
            with warnings.catch_warnings():
                # A candidate is no choice yet.
                warnings.simplefilter("ignore", FlowbertWarning)
                fitted, invalid_reason = fit_map(make_map(method), rows[0])
            if invalid_reason is None:
                whole, view, half, other = map(fitted.transform, rows)
                by_views = cosine_statistics(whole, view)
                by_halves = cosine_statistics(half, other)
                settings.append((layers, method))
                values.append(criterion(by_views, by_halves, weights))
    return rank_candidates(settings, np.array(values))


def _flags(values: Mapping[str, Any]) -> str:
    return shlex.join(f"--{name}={value}" for name, value in values.items() if value)


def rank_candidates(
    settings: Sequence[tuple[str, str]], values: Floats
) -> pd.DataFrame:
    """Order settings by their criterion; raw vectors within 1% of the best come first.

    Args:
        settings: Layers and method of C settings; raw is one of the methods.
        values: Criterion on the sentences and on R resamples of them, ``(C, 1 + R)``.

    Returns:
        The candidates of :class:`Advice`.
    """
    frame = pd.DataFrame(settings, columns=["layers", "method"])
    frame["criterion"], resampled = values[:, 0], values[:, 1:]
    frame["low"], frame["high"] = np.quantile(resampled, (0.025, 0.975), axis=1)
    best = frame["criterion"].idxmax()
    raw = frame.loc[frame["method"] == "raw", "criterion"].idxmax()
    if frame["criterion"][raw] >= _AS_GOOD * frame["criterion"][best]:
        best = raw
    # Layers come with a map: the same map on others is no other advice.
    same = (
        frame.index == best if best == raw else frame["method"] == frame["method"][best]
    )
    behind = np.quantile(resampled[best] - resampled, 0.025, axis=1)
    frame["tied"] = (behind <= 0) & ~same
    others = frame.drop(best).sort_values("criterion", ascending=False, kind="stable")
    return pd.concat([frame.loc[[best]], others], ignore_index=True)

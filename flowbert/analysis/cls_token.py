"""Whether [CLS] is informative: in an encoder that never trained it, it is not."""

import warnings
from collections.abc import Sequence

import torch

from flowbert.analysis.criterion import (
    MIN_SENTENCES,
    cosine_statistics,
    discriminability,
    make_views,
    resample_weights,
    sentences_with_views,
)
from flowbert.data.corpus import Corpus
from flowbert.encoders import Encoder, SentenceEncoder
from flowbert.errors import FlowbertWarning
from flowbert.maps import Whitening
from flowbert.vectors import EmbeddingCache

CLS_SHARE = 0.75
"""Share of what the mean over tokens distinguishes; measured in docs/choosing-a-method.md."""

CLS_SHRINKAGE = 0.8
"""Shrinkage of the whitening under which both are compared."""

CLS_SENTENCES = 1000
"""Sentences that decide on a warning, at most."""


def cls_is_informative(
    encoder: SentenceEncoder,
    sentences: Sequence[str],
    views: Sequence[str],
    cache: EmbeddingCache,
) -> bool:
    """Whether [CLS] distinguishes views three quarters as well as the mean over tokens.

    Both are those of the last layer, whitened.

    Args:
        encoder: A frozen encoder; its layers and pooling play no role.
        sentences: N sentences.
        views: A view of each, from :func:`flowbert.analysis.criterion.make_views`.
        cache: The embedding cache.
    """
    first = int(encoder.tokenize(["a"])["input_ids"][0, 0])
    if first != encoder.backbone.tokenizer.cls_token_id:
        return False
    poolings = ("cls", "mean")
    variants = [encoder.variant(layers="last", pooling=name) for name in poolings]
    cache.fill(variants, [*sentences, *views])
    weights = resample_weights(len(sentences), resamples=0)
    distances = []
    for variant in variants:
        x = torch.from_numpy(cache.rows(variant, sentences)[:])
        y = torch.from_numpy(cache.rows(variant, views)[:])
        fitted = Whitening(shrinkage=CLS_SHRINKAGE).fit(x)
        statistics = cosine_statistics(fitted.transform(x), fitted.transform(y))
        distances.append(float(discriminability(statistics, weights)[0]))
    by_cls, by_mean = distances
    return by_cls > CLS_SHARE * by_mean


def warn_of_cls(
    encoder: Encoder, sentences: Sequence[str], cache: EmbeddingCache, seed: int = 0
) -> None:
    """Warn if the pooling of a frozen encoder weighs a [CLS] that is not informative.

    Only sentences of four words or more can show it; with fewer than 50 of them there is no
    warning.

    Args:
        encoder: The encoder; one without a weight of [CLS] (``zipf:cls=16``) is not examined.
        sentences: Sentences of its use, of which at most 1,000 are encoded.
        cache: The embedding cache.
        seed: Seed of the sample and of the views.
    """
    if not (
        isinstance(encoder, SentenceEncoder) and encoder.pooling.options.get("cls")
    ):
        return
    useful = sentences_with_views(sentences)
    if len(useful) < MIN_SENTENCES:
        return
    drawn = Corpus("", useful).sample(CLS_SENTENCES, seed).sentences
    if not cls_is_informative(encoder, drawn, make_views(drawn, seed), cache):
        warnings.warn(
            f"pooling: received {encoder.pooling}, which weighs [CLS]; it is not informative in "
            "this encoder, and without cls the scores are likely better",
            FlowbertWarning,
            stacklevel=2,
        )

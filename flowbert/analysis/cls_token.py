"""Whether [CLS] is informative: in an encoder that never trained it, it is not."""

import warnings
from collections.abc import Sequence

import torch

from flowbert.analysis.views import (
    MIN_SENTENCES,
    discriminability,
    make_views,
    sentences_with_views,
)
from flowbert.data.corpus import Corpus
from flowbert.encoders import Encoder, SentenceEncoder
from flowbert.errors import FlowbertWarning
from flowbert.maps import Whitening
from flowbert.vectors import EmbeddingCache

CLS_SHARE = 0.75
"""Share of what the mean over tokens distinguishes; measured in docs/research/advice.md."""

CLS_SHRINKAGE = 0.8
"""Shrinkage of the whitening under which both are compared."""

CLS_SENTENCES = 1000
"""Sentences that are encoded for it, at most."""


def cls_is_informative(
    encoder: SentenceEncoder,
    sentences: Sequence[str],
    cache: EmbeddingCache,
    seed: int = 0,
) -> bool | None:
    """Whether [CLS] distinguishes views of sentences three quarters as well as the mean.

    Both are those of the last layer, whitened. Only sentences of four words or more can show it.

    Args:
        encoder: A frozen encoder; its layers and pooling play no role.
        sentences: Sentences of its use, of which at most 1,000 are encoded, each with a view.
        cache: The embedding cache.
        seed: Seed of the sample and of the views.

    Returns:
        None if there are fewer than 50 such sentences.
    """
    first = int(encoder.tokenize(["a"])["input_ids"][0, 0])
    if first != encoder.backbone.tokenizer.cls_token_id:
        return False
    useful = sentences_with_views(sentences)
    if len(useful) < MIN_SENTENCES:
        return None
    drawn = Corpus("", useful).sample(CLS_SENTENCES, seed).sentences
    views = make_views(drawn, seed)
    poolings = ("cls", "mean")
    variants = [encoder.variant(layers="last", pooling=name) for name in poolings]
    cache.fill(variants, [*drawn, *views])
    distances = []
    for variant in variants:
        x = torch.from_numpy(cache.rows(variant, drawn)[:])
        y = torch.from_numpy(cache.rows(variant, views)[:])
        fitted = Whitening(shrinkage=CLS_SHRINKAGE).fit(x)
        distances.append(discriminability(fitted.transform(x), fitted.transform(y)))
    by_cls, by_mean = distances
    return by_cls > CLS_SHARE * by_mean


def warn_of_cls(
    encoder: Encoder, sentences: Sequence[str], cache: EmbeddingCache, seed: int = 0
) -> None:
    """Warn if the pooling of a frozen encoder weighs a [CLS] that is not informative.

    Args:
        encoder: The encoder; one without a weight of [CLS] (``zipf:cls=16``) is not examined.
        sentences: As of :func:`cls_is_informative`; with too few there is no warning.
        cache: The embedding cache.
        seed: Seed of the sample and of the views.
    """
    if not (
        isinstance(encoder, SentenceEncoder) and encoder.pooling.options.get("cls")
    ):
        return
    if cls_is_informative(encoder, sentences, cache, seed) is False:
        warnings.warn(
            f"pooling: received {encoder.pooling}, which includes [CLS]; it is not informative in "
            "this encoder, and a pooling without cls likely scores better",
            FlowbertWarning,
            stacklevel=2,
        )

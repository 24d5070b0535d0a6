"""Test whether [CLS] is informative, by views of sentences: untrained, it is not."""

from collections.abc import Iterable, Sequence

import torch

from flowbert.data.corpus import Corpus
from flowbert.encoders import Encoder, SentenceEncoder
from flowbert.errors import warn
from flowbert.maps import Whitening
from flowbert.seeding import Stream
from flowbert.tasks.measures import Array, unit_rows
from flowbert.vectors import EmbeddingCache

DELETED_SHARE = 0.4
"""Share of the words that a view lacks."""

MIN_WORDS = 4
"""Words that a sentence needs to have views."""

MIN_SENTENCES = 50
"""Sentences below which the distance is noise."""


def sentences_with_views(sentences: Iterable[str]) -> tuple[str, ...]:
    """The distinct sentences that are long enough.

    Example:
        >>> sentences_with_views(["a dog runs home", "a dog", "a dog runs home"])
        ('a dog runs home',)
    """
    distinct = dict.fromkeys(sentences)
    return tuple(text for text in distinct if len(text.split()) >= MIN_WORDS)


def make_views(sentences: Sequence[str], seed: int = 0) -> list[str]:
    """Each sentence without 40% of its words.

    Example:
        >>> make_views(["a dog runs in the park"])
        ['a dog in park']
    """
    from flowbert.methods.augment import edit_words  # imports Lightning

    indices = range(len(sentences))
    rngs = [Stream(seed, "views", batch=index).python() for index in indices]
    return edit_words("word_deletion", DELETED_SHARE, sentences, rngs)


def discriminability(sentences: Array, views: Array) -> float:
    r"""Distance d' of the cosines with the own view and those with the views of others.

    :math:`d' = (\mu_o - \mu) / \sqrt{(\sigma_o^2 + \sigma^2) / 2}`, as in signal detection; the
    variance of the others is that of each sentence, averaged. There is no matrix of all cosines.

    References:
        Signal Detection Theory and Psychophysics (Green and Swets, 1966).

    Args:
        sentences: Vectors of N sentences, ``(N, D)``.
        views: Vectors of their views, ``(N, D)``.
    """
    left, right = unit_rows(sentences), unit_rows(views)
    others = len(left) - 1
    own = (left * right).sum(dim=1)
    mean = (left @ right.sum(dim=0) - own) / others
    square = ((left @ (right.T @ right) * left).sum(dim=1) - own**2) / others
    variance = own.var(correction=0) + (square - mean**2).mean()
    return float((own - mean).mean() / (variance / 2).sqrt())


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
        warn(
            f"pooling: received {encoder.pooling}, which includes [CLS]; it is not informative in "
            "this encoder, and a pooling without cls likely scores better"
        )

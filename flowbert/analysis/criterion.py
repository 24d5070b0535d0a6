"""The label-free criterion of ``advise``: how well vectors distinguish views of a sentence.

One view of a sentence lacks 40% of its words. Another pair of views are the two halves of its token
vectors, every second token each, after one pass: they are alike only where every token carries the
sentence. Encoders that were trained for similarity stand out by the second kind, others by the
first. The criterion is ours; docs/choosing-a-method.md measures what it is worth.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import torch

from flowbert.arrays import Floats
from flowbert.seeding import Stream
from flowbert.tasks.measures import Array, unit_rows

DELETED_SHARE = 0.4
"""Share of the words that a view lacks."""

MIN_WORDS = 4
"""Words that a sentence needs to have views."""

MIN_SENTENCES = 50
"""Sentences below which the criterion is noise."""


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


def cosine_statistics(sentences: Array, views: Array) -> Floats:
    """Statistics of the cosines of all sentences with all views, without their matrix.

    Args:
        sentences: Vectors of N sentences, ``(N, D)``.
        views: Vectors of their views, ``(N, D)``.

    Returns:
        Shape ``(3, N)``: the cosine with the own view, what it exceeds the mean cosine with other
        views by, and its square plus the variance of the cosines with other views.
    """
    left, right = unit_rows(sentences), unit_rows(views)
    others = len(left) - 1
    own = (left * right).sum(dim=1)
    mean = (left @ right.sum(dim=0) - own) / others
    square = ((left @ (right.T @ right) * left).sum(dim=1) - own**2) / others
    statistics = torch.stack([own, own - mean, own**2 + square - mean**2])
    return statistics.cpu().numpy()


def resample_weights(sentences: int, resamples: int, seed: int = 0) -> Floats:
    """Share of each sentence in the sample and in R bootstrap resamples of it: ``(N, 1 + R)``."""
    even = np.full(sentences, 1 / sentences)
    rng = Stream(seed, "bootstrap", of="advice").rng()
    drawn = rng.multinomial(sentences, even, size=resamples)
    return np.column_stack([even, drawn.T / sentences])


def discriminability(statistics: Floats, weights: Floats) -> Floats:
    r"""Distance d' of own and other cosines: their means, relative to their standard deviations.

    :math:`d' = (\mu_o - \mu) / \sqrt{(\sigma_o^2 + \sigma^2) / 2}`, as in signal detection.

    References:
        Signal Detection Theory and Psychophysics (Green and Swets, 1966).

    Args:
        statistics: From :func:`cosine_statistics`, ``(3, N)``.
        weights: From :func:`resample_weights`, ``(N, R)``.

    Returns:
        Shape ``(R,)``.
    """
    own, gap, square = statistics @ weights
    distance: Floats = gap / np.sqrt((square - own**2) / 2)
    return distance


def criterion(views: Floats, halves: Floats, weights: Floats) -> Floats:
    r"""Both kinds of views as independent cues: :math:`\sqrt{\sum_i \max(d'_i, 0)^2}`, ``(R,)``.

    Args:
        views: Statistics of sentences and their views, ``(3, N)``.
        halves: Statistics of the halves of their tokens, ``(3, N)``.
        weights: From :func:`resample_weights`, ``(N, R)``.
    """
    distances = [discriminability(each, weights) for each in (views, halves)]
    combined: Floats = np.hypot(*np.maximum(distances, 0))
    return combined

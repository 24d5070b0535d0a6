"""Views of a sentence, each without 40% of its words, and how well vectors distinguish them."""

from collections.abc import Iterable, Sequence

from flowbert.seeding import Stream
from flowbert.tasks.measures import Array, unit_rows

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

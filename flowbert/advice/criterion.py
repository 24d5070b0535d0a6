"""How well a setting tells views of a sentence from those of others: the criterion that needs no label.

One kind of view lacks 40% of the sentence's words: to know it again takes the words. The other kind is two halves of
the sentence's token vectors, every second one, after one pass over all of it: these are alike only where every token
carries the sentence. Encoders that were trained for similarity stand out by the second, others by the first.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from torch import Tensor
from torch.nn.functional import normalize

from flowbert.data.augment import delete_words, edit_sentence
from flowbert.seeding import Stream

DELETED = 0.4
"""Share of the words that a view lacks."""

WORDS, FEWEST = 4, 50
"""Words that a sentence needs to have useful views, and sentences below which the criterion is noise."""

Floats = npt.NDArray[np.float64]


def with_views(sentences: Iterable[str]) -> list[str]:
    """Those of some sentences that have useful views, each once.

    Example:
        >>> with_views(["a dog runs home", "a dog", "a dog runs home"])
        ['a dog runs home']
    """
    return [text for text in dict.fromkeys(sentences) if len(text.split()) >= WORDS]


def views_of(sentences: Sequence[str], seed: int = 0) -> list[str]:
    """Each sentence without 40% of its words, drawn by a seed; a sentence of one word stays as it is.

    Example:
        >>> views_of(["a dog runs in the park", "word"])
        ['a dog in park', 'word']
    """
    return [
        edit_sentence(text, delete_words, DELETED, Stream(seed, "views", batch=number).python())
        for number, text in enumerate(sentences)
    ]


class Cosines(NamedTuple):
    """Cosines of N sentences with their own view, and mean and mean square of those with the others' views."""

    own: Floats
    mean: Floats
    square: Floats


def cosines(sentences: Tensor, views: Tensor) -> Cosines:
    """Cosines of sentences with all views, without the matrix of them.

    Args:
        sentences: Vectors of N sentences, ``(N, D)``.
        views: Vectors of their views, ``(N, D)``.
    """
    left, right = normalize(sentences.double(), dim=1), normalize(views.double(), dim=1)
    own, others = (left * right).sum(dim=1), len(left) - 1
    mean = (left @ right.sum(dim=0) - own) / others
    square = ((left @ (right.T @ right) * left).sum(dim=1) - own**2) / others
    return Cosines(own.numpy(), mean.numpy(), square.numpy())


def merit(found: Sequence[Cosines], drawn: Floats | None = None) -> Floats:
    r"""Both views as independent cues: :math:`\sqrt{\sum_i \max(d'_i, 0)^2}`, ``(R,)``, without weights between them.

    Args:
        found: Cosines of sentences with a view of each kind.
        drawn: Resamples, as in :func:`discriminability`.
    """
    distances = [np.maximum(discriminability(each, drawn), 0) for each in found]
    together: Floats = np.sqrt(sum(distance**2 for distance in distances))
    return together


def discriminability(found: Cosines, drawn: Floats | None = None) -> Floats:
    r"""Distance of own and other cosines in deviations, :math:`(\mu_o - \mu) / \sqrt{(\sigma_o^2 + \sigma^2) / 2}`.

    The index d' of signal detection. With N at least 2 and cosines that vary it is finite.

    Args:
        found: The cosines.
        drawn: How often each sentence is drawn in R resamples, ``(R, N)``; default: each once.

    Returns:
        Shape ``(R,)``; ``(1,)`` without resamples.

    References:
        Signal Detection Theory and Psychophysics (Green, Swets, 1966).

    Example:
        >>> own, mean = np.array([0.9, 0.7]), np.array([0.1, 0.1])
        >>> discriminability(Cosines(own, mean, mean**2 + 0.01)).round(2)
        array([7.])
    """
    weights = np.ones((1, len(found.own))) if drawn is None else drawn
    weights = weights / weights.sum(axis=1, keepdims=True)
    own, own_square = weights @ found.own, weights @ found.own**2
    spread = own_square - own**2 + weights @ (found.square - found.mean**2)
    distance: Floats = (own - weights @ found.mean) / np.sqrt(spread / 2)
    return distance


def resamples(count: int, sentences: int, seed: int = 0) -> Floats:
    """How often each of N sentences is drawn in R bootstrap resamples: ``(R, N)``."""
    rng = Stream(seed, "bootstrap", of="advice").rng()
    return rng.multinomial(sentences, np.full(sentences, 1 / sentences), size=count).astype(np.float64)

"""Lexical similarity: how far a similarity, or the gold score, follows the wording instead of the meaning."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flowbert.errors import UserError, choices
from flowbert.metrics import spearman_or_nan
from flowbert.tasks.pairs import ScoredPairs

UNITS = ("words", "characters")
EDIT_DISTANCE = "edit_distance"
GOLD = "gold"


def edit_distance_metric(unit: str) -> str:
    """Name of the metric in result rows: ``edit_distance_words``."""
    return f"{EDIT_DISTANCE}_{unit}"


@dataclass(frozen=True)
class LexicalFigures:
    """Spearman of one similarity with the edit distance and with the gold score, in [-1, 1].

    Attributes:
        method: Name of the method; ``gold`` for the gold score itself.
        with_edit_distance: Nearer to -1: the similarity follows the wording more.
        with_gold: 1 for the gold score itself.
    """

    method: str
    with_edit_distance: float
    with_gold: float


def levenshtein(first: Sequence[Hashable], second: Sequence[Hashable]) -> int:
    """Least number of insertions, deletions and substitutions that turn one sequence into the other.

    Bit-parallel: one column of the dynamic programme is two integers, so a pair costs a few operations per element of
    ``second``, whatever the length of ``first``.

    References:
        A Fast Bit-Vector Algorithm for Approximate String Matching Based on Dynamic Programming (Myers, 1999), in the
        form that Hyyrö gave it for the distance of two strings. https://doi.org/10.1145/316542.316550

    Example:
        >>> levenshtein("kitten", "sitting"), levenshtein("a big dog".split(), "a dog".split())
        (3, 1)
    """
    if not first:
        return len(second)
    places: dict[Hashable, int] = {}
    for place, element in enumerate(first):
        places[element] = places.get(element, 0) | 1 << place
    mask, last = (1 << len(first)) - 1, 1 << (len(first) - 1)
    rises, falls, distance = mask, 0, len(first)
    for element in second:
        equal = places.get(element, 0)
        diagonal = (((equal & rises) + rises) ^ rises) | equal | falls
        rises_here, falls_here = falls | (~(diagonal | rises) & mask), rises & diagonal
        distance += bool(rises_here & last) - bool(falls_here & last)
        rises_here, falls_here = rises_here << 1 | 1, falls_here << 1
        rises, falls = (falls_here | ~(diagonal | rises_here)) & mask, rises_here & diagonal & mask
    return distance


def edit_distances(
    first: Sequence[str], second: Sequence[str], *, unit: str = "words", normalized: bool = False
) -> NDArray[np.float64]:
    """Levenshtein distance of each pair of sentences, case as it stands.

    Args:
        first: N sentences.
        second: N sentences.
        unit: ``words`` (split at white space) or ``characters``.
        normalized: Divide by the length of the longer sentence, in the same unit: in [0, 1].

    Returns:
        Distances of shape ``(N,)``.

    Raises:
        UserError: If the numbers of sentences differ or the unit is unknown.
    """
    if unit not in UNITS:
        raise UserError(f"unit is {unit!r}; {choices(UNITS, unit)}")
    if len(first) != len(second):
        raise UserError(f"{len(first)} first and {len(second)} second sentences; allowed: equal numbers")
    distances = np.empty(len(first))
    for row, pair in enumerate(zip(first, second, strict=True)):
        left, right = (sentence.split() if unit == "words" else sentence for sentence in pair)
        longer = max(len(left), len(right), 1)
        distances[row] = levenshtein(left, right) / (longer if normalized else 1)
    return distances


def lexical_figures(pairs: ScoredPairs, distances: NDArray[np.float64]) -> list[LexicalFigures]:
    r"""Spearman of the gold score and of each method's similarity with the edit distance, over all pairs of the split.

    NaN where it does not exist: constant or non-finite values.

    li2020 report -24.61 for the gold score on STS-B and say neither in which unit nor on which split. The nearest
    reading is the number of edited words, not normalized, on the development split: -24.55 (characters: -20.27). The
    test split gives -15.68. Hence unit and split belong beside every figure.

    References:
        On the Sentence Embeddings from Pre-trained Language Models, table 6 (Li et al., 2020).
        https://arxiv.org/abs/2011.05864

    Args:
        pairs: Gold scores and similarities.
        distances: From :func:`edit_distances` on the same pairs, shape ``(N,)``.

    Raises:
        UserError: If there are not as many distances as pairs.

    Example:
        >>> gold = np.array([5.0, 1.0, 3.0])
        >>> pairs = ScoredPairs("T", "test", ("T",), (gold,), {"raw": (np.array([0.9, 0.2, 0.1]),)})
        >>> round(lexical_figures(pairs, np.array([0.0, 4.0, 9.0]))[1].with_edit_distance, 6)
        -1.0
    """
    by_distance, gold = lexical_pairs(pairs, distances), pairs.concatenated()
    found = []
    for method in by_distance.predicted:
        values = by_distance.concatenated(method)
        with_gold = 1.0 if method == GOLD else spearman_or_nan(values, gold)
        found.append(LexicalFigures(method, spearman_or_nan(values, distances), with_gold))
    return found


def lexical_pairs(pairs: ScoredPairs, distances: NDArray[np.float64]) -> ScoredPairs:
    """The same pairs with their edit distance in the place of the gold score, which becomes a method called ``gold``.

    Args:
        pairs: Gold scores and similarities.
        distances: Of the same pairs, over all subsets, shape ``(N,)``.

    Raises:
        UserError: If there are not as many distances as pairs.
    """
    if distances.shape != (len(pairs),):
        raise UserError(f"distances have the shape {distances.shape}; allowed: ({len(pairs)},)")
    stops = np.cumsum([len(scores) for scores in pairs.gold])[:-1]
    by_subset = tuple(np.split(distances, stops))
    return ScoredPairs(pairs.task, pairs.split, pairs.subsets, by_subset, {GOLD: pairs.gold, **pairs.predicted})

"""Pairs of a task that share few words, or many: what similarity owes to the wording.

python train.py compare --import examples.low_overlap --tasks low-overlap:SAMPLE,high-overlap:SAMPLE
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from flowbert.arrays import Floats, Indices
from flowbert.data.scored_pairs import STSData, Subset
from flowbert.data.text_files import split_words
from flowbert.errors import UserError
from flowbert.io import digest
from flowbert.numbers import is_number
from flowbert.tasks.base import COSINE_DECIMALS, TASKS
from flowbert.tasks.sts import SimilarityTask

SHARE = 0.1
"""Share of the pairs that is taken."""

_IDEOGRAPHS = "\u3400-\u4dbf\u4e00-\u9fff"
_PART = re.compile(rf"[{_IDEOGRAPHS}]\W*|[^{_IDEOGRAPHS}]+")


def words(text: str) -> list[str]:
    """Lower-cased words of :func:`split_words`; a Chinese character is one.

    A text without any is one word.

    Example:
        >>> words("A dog's life."), words("...")
        (['a', 'dog', 's', 'life'], ['...'])
    """
    pieces = split_words(text.lower())
    runs = [piece for piece in pieces if piece[0].isalnum() or piece[0] == "_"]
    return [part for run in runs for part in _PART.findall(run)] or [text]


def word_overlap(first: Sequence[str], second: Sequence[str]) -> Floats:
    """Shared words of each pair as a share of all its words (Jaccard), ``(K,)``.

    Args:
        first: First sentences, K of them.
        second: Second sentences, K of them.

    Example:
        >>> word_overlap(["A dog runs."], ["A dog sleeps."])
        array([0.5])
    """
    sets = ((set(words(a)), set(words(b))) for a, b in zip(first, second, strict=True))
    return np.array([len(a & b) / len(a | b) for a, b in sets], dtype=np.float64)


def tfidf_cosine(
    first: Sequence[str], second: Sequence[str], corpus: Iterable[str]
) -> Floats:
    """Cosine of each pair's word counts weighted by tf-idf, ``(K,)``.

    Args:
        first: First sentences, K of them.
        second: Second sentences, K of them.
        corpus: Sentences in which documents are counted; the first and second ones among them.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(analyzer=words).fit(corpus)
    products = vectorizer.transform(first).multiply(vectorizer.transform(second))
    cosines: Floats = np.asarray(products.sum(axis=1), dtype=np.float64).ravel()
    return np.round(cosines, COSINE_DECIMALS)


def word_baselines(
    first: Sequence[str], second: Sequence[str], corpus: Iterable[str]
) -> dict[str, Floats]:
    """Similarities ``(K,)`` that know words alone, by name: see :func:`tfidf_cosine`."""
    return {
        "word overlap": word_overlap(first, second),
        "tf-idf": tfidf_cosine(first, second, corpus),
    }


@TASKS.register("low-overlap")
class LowOverlap(SimilarityTask):
    """Spearman on a tenth of the pairs, whose low word overlap does not depend on the gold score.

    In each subset, adjacent gold scores form bins of 1 / ``share`` pairs or more, so that a score
    which many pairs have is a bin of its own. The ``share`` of each bin whose word overlap
    (:func:`word_overlap`) is nearest to one level is taken: the gold scores are distributed as
    those of all pairs, and the overlap predicts them less: its Spearman correlation x 100 with the
    gold score is 26 to 39 on ``low-overlap:STS12`` to ``SICKR`` and 35 to 50 on ``high-overlap``,
    of all pairs 59 on average. Equally near ones are taken in the order of a digest of their texts.
    Maps are fitted on all sentences of the task. Tables have rows of :func:`word_baselines`, too.

    The least overlap of each bin (``level=0``) would still rise with the gold score, and is a
    better predictor of it than the overlap of all pairs is.

    Args:
        data: The data set.
        split: Split to measure.
        share: Share of the pairs to take, in (0, 1).
        level: The level as a quantile of the subset's word overlap, in [0, 1]; None for
            :attr:`default_level`.

    Attributes:
        default_level: Level of the class: the first quartile.

    Raises:
        UserError: If an argument is wrong, or fewer than two gold scores are left of a subset.

    References:
        On the Sentence Embeddings from Pre-trained Language Models (Li et al., 2020), table 6, ask
        by edit distance what cosines owe to the wording. https://arxiv.org/abs/2011.05864
    """

    default_level: ClassVar[float] = 0.25

    def __init__(
        self,
        data: STSData,
        split: str = "test",
        share: float = SHARE,
        level: float | None = None,
    ) -> None:
        level = self.default_level if level is None else level
        _check(share, level)
        name = f"{self.kind}:{data.name}"
        subsets = [_choose(subset, share, level, name) for subset in data.split(split)]
        super().__init__(
            replace(data, name=name, splits={**data.splits, split: subsets}), split
        )
        self.share = share
        self.level = level
        self.data = data  # corpora and labels are those of the whole task

    def settings(self) -> dict[str, Any]:
        """The settings of the measurement in words."""
        return super().settings() | {"share": self.share, "level": self.level}

    @property
    def references(self) -> Mapping[str, Floats]:
        """What words alone reach."""
        corpus = chain.from_iterable(self.texts().values())
        return word_baselines(*self.pairs(), corpus)


@TASKS.register("high-overlap")
class HighOverlap(LowOverlap):
    """:class:`LowOverlap` at a high level: the third quartile of the word overlap."""

    default_level = 0.75


def _check(share: Any, level: Any) -> None:
    """Raise a UserError for arguments of :class:`LowOverlap` that are not allowed."""
    if not is_number(share, 0, 1) or share in (0, 1):
        raise UserError(
            argument="share", received=share, expected="a number above 0 and below 1"
        )
    if not is_number(level, 0, 1):
        raise UserError(
            argument="level", received=level, expected="a number from 0 to 1"
        )


def _choose(subset: Subset, share: float, level: float, name: str) -> Subset:
    """The pairs of a subset that a task of this name takes."""
    overlap = word_overlap(subset.sentences1, subset.sentences2)
    distance = np.abs(overlap - np.quantile(overlap, level, method="nearest"))
    texts = zip(subset.sentences1, subset.sentences2, strict=True)
    ties = np.array([digest(*sorted(pair)) for pair in texts])
    order = np.lexsort((subset.scores, ties, distance))
    mask = np.zeros(len(subset), dtype=bool)
    mask[first_of_bins(order, subset.scores, share)] = True
    chosen = subset.where(mask)
    if len(np.unique(chosen.scores)) < 2:
        raise UserError(
            f"received {name}, of which {subset.name} has {len(subset)} pairs; expected two or "
            f"more different gold scores among {share:g} of them",
            argument="tasks",
        )
    return chosen


def first_of_bins(order: Indices, gold: Floats, share: float) -> Indices:
    """Take a share of the pairs from each bin of adjacent gold scores, in a given order.

    Args:
        order: All pairs, those to take first, ``(N,)``.
        gold: Gold scores of the pairs, ``(N,)``.
        share: Share to take, in (0, 1); a bin has 1 / share pairs or more.

    Returns:
        The pairs that are taken: share x N of them, rounded.

    Example:
        >>> gold = np.array([0.0, 0.0, 1.0, 5.0, 5.0])
        >>> first_of_bins(np.array([4, 3, 2, 1, 0]), gold, 0.5)
        array([1, 4, 3])
    """
    bin_of = _bins(gold, 1 / share)[order]
    ends = np.cumsum(np.bincount(bin_of))
    # What is rounded off in a bin is carried into the next one.
    totals = np.floor(share * ends + 0.5).astype(int)
    taken = np.diff(totals, prepend=0)
    parts = [order[bin_of == number][:size] for number, size in enumerate(taken)]
    return np.concatenate(parts)


def _bins(gold: Floats, least: float) -> NDArray[np.intp]:
    """Bin ``(N,)`` of each gold score, from 0; adjacent scores share one of ``least`` or more."""
    scores, of_score, sizes = np.unique(gold, return_inverse=True, return_counts=True)
    bins = np.zeros(len(scores), dtype=np.intp)
    number = held = 0
    for row, size in enumerate(sizes):
        if held >= least:
            number, held = number + 1, 0
        bins[row] = number
        held += size
    if held < least and number:
        bins[bins == number] = number - 1
    return bins[of_score]

"""Similarities of several methods on the same pairs: what the bootstrap and the lexical figures start from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flowbert.data.sts import Subset
from flowbert.errors import UserError
from flowbert.evaluation.protocol import PairEmbeddings, Transform, similarities


@dataclass(frozen=True, eq=False)
class ScoredPairs:
    """Gold scores and every method's similarities on the pairs of one split.

    Attributes:
        task: Name of the task.
        split: Name of the split.
        subsets: Names of the subsets.
        gold: Gold scores by subset, each of shape ``(N_s,)``.
        predicted: Method -> similarities by subset, each of shape ``(N_s,)``.

    Raises:
        UserError: If there is no subset, or a method has another number of subsets or pairs than the gold scores.
    """

    task: str
    split: str
    subsets: tuple[str, ...]
    gold: tuple[NDArray[np.float64], ...]
    predicted: Mapping[str, tuple[NDArray[np.float64], ...]]

    def __post_init__(self) -> None:
        sizes = [len(scores) for scores in self.gold]
        if not sizes or len(self.subsets) != len(sizes):
            raise UserError(f"{self.task}: {len(self.subsets)} subsets, {len(sizes)} of scores; allowed: equal, >= 1")
        for method, values in self.predicted.items():
            received = [len(value) for value in values]
            if received != sizes:
                raise UserError(
                    f"{self.task}: method {method!r} has {received} similarities by subset; needed: {sizes}"
                )

    def __len__(self) -> int:
        return sum(len(scores) for scores in self.gold)

    def concatenated(self, method: str | None = None) -> NDArray[np.float64]:
        """Gold scores, or a method's similarities, over all subsets: shape ``(N,)``."""
        return np.concatenate(self.gold if method is None else self.predicted[method])


def score_pairs(pairs: PairEmbeddings, methods: Mapping[str, Transform | None]) -> ScoredPairs:
    """Similarities of each method on the same pairs.

    Args:
        pairs: From :func:`flowbert.evaluation.embed_pairs`.
        methods: Name -> fitted map ``(M, D) -> (M, k)``; None leaves the embeddings raw.
    """
    return ScoredPairs(
        pairs.task,
        pairs.split,
        tuple(subset.name for subset in pairs.subsets),
        tuple(subset.scores for subset in pairs.subsets),
        {name: tuple(similarities(pairs, transform)) for name, transform in methods.items()},
    )


def sentence_pairs(subsets: Sequence[Subset]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """First and second sentences of all subsets, in the order of :meth:`ScoredPairs.concatenated`."""
    first = tuple(sentence for subset in subsets for sentence in subset.sentences1)
    second = tuple(sentence for subset in subsets for sentence in subset.sentences2)
    return first, second

"""Similarities of several methods on the same pairs: what the bootstrap and the lexical figures start from."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from flowbert.errors import UserError
from flowbert.io.container import read_container, write_container
from flowbert.tasks.protocol import PairEmbeddings, Transform, similarities

_FORMAT = "flowbert-scored-pairs-2"


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

    def save(self, path: str | Path) -> Path:
        """Write one safetensors file, so that a later run can add methods and compare them. Returns the path."""
        names = {"task": self.task, "split": self.split, "subsets": self.subsets, "methods": list(self.predicted)}
        sizes = np.array([len(scores) for scores in self.gold], dtype=np.int64)
        tensors = {"sizes": sizes, "gold": self.concatenated()}
        # Numbered: a method's name may hold what a tensor's name may not.
        tensors |= {f"method.{number}": self.concatenated(name) for number, name in enumerate(self.predicted)}
        return write_container(path, _FORMAT, tensors, names)

    @classmethod
    def load(cls, path: str | Path) -> "ScoredPairs":
        """Read a file of :meth:`save`.

        Raises:
            UserError: If the file is missing, damaged or another one.
        """
        names, content = read_container(path, _FORMAT, "table of scored pairs", "score and save them again")
        tensors = {name: tensor.numpy() for name, tensor in content.items()}
        edges = np.cumsum(tensors["sizes"])[:-1]
        methods = {name: tensors[f"method.{number}"] for number, name in enumerate(names["methods"])}
        return cls(
            names["task"],
            names["split"],
            tuple(names["subsets"]),
            tuple(np.split(tensors["gold"], edges)),
            {name: tuple(np.split(values, edges)) for name, values in methods.items()},
        )

    def joined(self, other: "ScoredPairs") -> "ScoredPairs":
        """Add the methods of ``other`` on the same pairs; a method that both have is taken from ``other``.

        Raises:
            UserError: If the pairs are not the same: task, split, subsets or gold scores differ.
        """
        mine, theirs = ((p.task, p.split, p.subsets, [len(g) for g in p.gold]) for p in (self, other))
        if mine != theirs or not np.array_equal(self.concatenated(), other.concatenated()):
            raise UserError(
                f"pairs of {other.task} {other.split} cannot join {self.task} {self.split}; allowed: the same"
            )
        return ScoredPairs(self.task, self.split, self.subsets, self.gold, {**self.predicted, **other.predicted})


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

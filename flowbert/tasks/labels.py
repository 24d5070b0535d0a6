"""Labelled pairs for methods that learn from them."""

from collections.abc import Callable, Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from flowbert.arrays import Floats
from flowbert.data.scored_pairs import Subset, load_sts
from flowbert.data.text_files import as_list
from flowbert.errors import UserError, warn
from flowbert.tasks.base import Task


def load_labels(
    source: str | None,
    senteval: str | None = None,
    columns: str | Sequence[str] | None = None,
) -> Sequence[Subset] | None:
    """Labelled pairs of a task or file: its train split, or else all; None without a source."""
    if source is None:
        return None
    data = load_sts(source, senteval, columns=as_list(columns, "columns") or None)
    return data.splits.get("train") or data.split("test")


def training_labels(
    task: Task,
    measured: Sequence[Task],
    labels: Sequence[Subset] | None = None,
    drop_overlap: bool = False,
    expected: str = "other labels, or drop_overlap",
    argument: str = "labels",
) -> tuple[Subset, ...]:
    """Labelled pairs for a supervised method, without pairs that are measured.

    A pair is measured in either order, regardless of case and white space.

    Args:
        task: The task whose train split is learned from.
        measured: All tasks that the method is measured on.
        labels: Pairs to learn from instead of the train split, see :func:`load_labels`.
        drop_overlap: Leave out measured pairs with a warning instead of raising an error.
        expected: How to avoid measured pairs, for the message.
        argument: Name of the argument that selects the labels, for the message.

    Raises:
        UserError: If no pair is left, or a pair is measured.
    """
    kept = list(task.labels() if labels is None else labels)
    for other in measured:
        known = set(map(_unordered, *other.pairs()))
        total = sum(map(len, kept))
        kept = [_drop_known(subset, known) for subset in kept]
        overlap = total - sum(map(len, kept))
        where = f"{other.name} {other.split}"
        message = f"{overlap} of {total} pairs are measured in {where}"
        if overlap and not drop_overlap:
            raise UserError(f"{message}; expected {expected}", argument=argument)
        if overlap:
            message = f"labels: {message} and left out"
            warn(message)
    kept = [subset for subset in kept if len(subset)]
    if not kept:
        raise UserError(
            f"received none to learn from for {task.name} {task.split}; expected labelled "
            "pairs that are not measured",
            argument=argument,
        )
    return tuple(kept)


def _drop_known(subset: Subset, known: Collection[frozenset[str]]) -> Subset:
    """The pairs of a subset that are not known."""
    pairs = map(_unordered, subset.sentences1, subset.sentences2)
    return subset.where(np.array([pair not in known for pair in pairs], dtype=bool))


def _unordered(*sentences: str) -> frozenset[str]:
    """A pair without its order, its case and its white space."""
    return frozenset(" ".join(sentence.split()).casefold() for sentence in sentences)


def embed_labels(
    embed: Callable[[Sequence[str]], NDArray[np.float32]], labels: Sequence[Subset]
) -> tuple[NDArray[np.float32], NDArray[np.float32], Floats]:
    """Vectors of labelled pairs, ``(P, D)`` each, and scores ``(P,)``.

    Args:
        embed: Function from sentences to vectors ``(N, D)``.
        labels: The pairs, at least one.
    """
    first = [text for subset in labels for text in subset.sentences1]
    second = [text for subset in labels for text in subset.sentences2]
    scores = np.concatenate([subset.scores for subset in labels])
    return embed(first), embed(second), scores

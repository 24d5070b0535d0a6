"""Labelled pairs for methods that learn from them."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from flowbert.arrays import Floats
from flowbert.data.overlap import without_overlap
from flowbert.data.sts import Subset, load_sts
from flowbert.data.text_files import as_list
from flowbert.errors import UserError
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
    given: Sequence[Subset] | None = None,
    drop_overlap: bool = False,
    expected: str = "other labels, or drop_overlap",
    argument: str = "labels",
) -> tuple[Subset, ...]:
    """Labelled pairs for a method that learns for a task, none of which is measured.

    Args:
        task: The task whose train split is learned from.
        measured: All tasks that the method is measured on.
        given: Pairs to learn from in place of the task's own, see :func:`load_labels`.
        drop_overlap: Leave out pairs that are measured, with a warning, in place of an error.
        expected: What helps if there are such pairs, for the message.
        argument: The argument that the labels come from, for the message.

    Raises:
        UserError: If there is none, or one is measured.
    """
    labels: Sequence[Subset] = list(task.labels() if given is None else given)
    for other in measured:
        where = f"{other.name} {other.split}"
        labels = without_overlap(
            labels, other.pairs(), where, drop_overlap, expected, argument
        )
    if not labels:
        raise UserError(
            f"received none to learn from for {task.name} {task.split}; expected labelled "
            "pairs that are not measured",
            argument=argument,
        )
    return tuple(labels)


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

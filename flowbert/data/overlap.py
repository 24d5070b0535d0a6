"""Labelled pairs to learn from, kept apart from the pairs that are measured."""

import warnings
from collections.abc import Sequence

import numpy as np

from flowbert.data.sts import Subset
from flowbert.errors import FlowbertWarning, UserError


def without_overlap(
    labels: Sequence[Subset],
    measured: tuple[Sequence[str], Sequence[str]],
    where: str,
    drop: bool = False,
    expected: str = "other labels, or drop_overlap",
    argument: str = "labels",
) -> list[Subset]:
    """Labelled pairs none of which is measured in either order, regardless of case and white space.

    Args:
        labels: Pairs to learn from.
        measured: First and second sentences of the pairs that are measured.
        where: Task and split of these, for the message.
        drop: Leave out labelled pairs that are measured, with a warning, in place of an error.
        expected: What helps, for the message.
        argument: The argument that the labels come from, for the message.

    Raises:
        UserError: If a pair is in both.
    """
    known = set(map(_pair, *measured))
    kept: list[Subset] = []
    for subset in labels:
        pairs = map(_pair, subset.sentences1, subset.sentences2)
        kept.append(subset.where(np.array([pair not in known for pair in pairs], bool)))
    total = sum(map(len, labels))
    overlap = total - sum(map(len, kept))
    message = f"{overlap} of {total} pairs are measured in {where}"
    if overlap and not drop:
        raise UserError(f"{message}; expected {expected}", argument=argument)
    if overlap:
        warnings.warn(f"labels: {message} and left out", FlowbertWarning, stacklevel=2)
    return [subset for subset in kept if len(subset)]


def _pair(*sentences: str) -> frozenset[str]:
    """The same for both orders, whatever case and white space."""
    return frozenset(" ".join(sentence.split()).casefold() for sentence in sentences)

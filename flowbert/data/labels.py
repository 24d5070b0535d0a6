"""Labelled pairs to learn from, kept apart from the pairs that are measured."""

import warnings
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from flowbert.data.sts import Subset
from flowbert.errors import FlowbertWarning, UserError

Measured = Callable[[], tuple[Sequence[str], Sequence[str]]]
_SHOWN = 60  # characters of a sentence in a message


def unmeasured(
    labels: Sequence[Subset], measured: Measured, where: str, *, drop_overlap: bool = False
) -> tuple[Subset, ...]:
    """Labelled pairs to learn from, none of which may be measured in either order; case and white space play no role.

    Args:
        labels: What would be learned from.
        measured: Gives first and second sentences of the pairs measured; called only if there are labels.
        where: Task and split of these, for the message.
        drop_overlap: Leave out those that are measured, with a warning that says how many, in place of refusing.

    Returns:
        The labels, or what is left of them.

    Raises:
        UserError: If a pair is in both; the message gives the number and an example.
    """
    shared = _measured_rows(labels, measured)
    found = [(subset, row) for subset, rows in zip(labels, shared, strict=True) for row in np.flatnonzero(rows)]
    if not found:
        return tuple(labels)
    told = f"{len(found)} of {sum(map(len, labels))} labelled pairs are among those measured, {where}"
    if not drop_overlap:
        subset, row = found[0]
        example = " | ".join(_cut(sentences[row]) for sentences in (subset.sentences1, subset.sentences2))
        allowed = "allowed: other labels, or drop_overlap, which learns without these"
        raise UserError(f"{told} (the first: {example}); {allowed}")
    warnings.warn(f"{told}: learning without them", FlowbertWarning, stacklevel=2)
    return tuple(subset.where(~rows) for subset, rows in zip(labels, shared, strict=True) if not rows.all())


def _measured_rows(labels: Sequence[Subset], measured: Measured) -> list[NDArray[np.bool_]]:
    """For each subset whether each of its pairs is measured: shape ``(N,)``."""
    known = {_pair(*pair) for pair in zip(*measured(), strict=True)} if labels else set()
    pairs = (zip(subset.sentences1, subset.sentences2, strict=True) for subset in labels)
    return [np.array([_pair(*pair) in known for pair in rows], dtype=bool) for rows in pairs]


def _pair(first: str, second: str) -> tuple[str, str]:
    first, second = (" ".join(text.split()).casefold() for text in (first, second))
    return (first, second) if first <= second else (second, first)


def _cut(sentence: str) -> str:
    return repr(sentence if len(sentence) <= _SHOWN else f"{sentence[:_SHOWN]}...")

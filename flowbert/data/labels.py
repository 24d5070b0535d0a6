"""Labelled pairs to learn from, kept apart from the pairs that are measured."""

import warnings
from collections.abc import Callable, Sequence

from flowbert.data.sts import Subset
from flowbert.errors import FlowbertWarning, UserError

Measured = Callable[[], tuple[Sequence[str], Sequence[str]]]
_SHOWN = 60  # characters of a sentence in a message


def check_overlap(labels: Sequence[Subset], measured: Measured, where: str) -> None:
    """Refuse labelled pairs that are measured, too, in either order; case and white space play no role.

    Args:
        labels: What would be learned from.
        measured: Gives first and second sentences of the pairs measured; called only if there are labels.
        where: Task and split of these, for the message.

    Raises:
        UserError: If a pair is in both; the message gives the number and an example.
    """
    shared = _shared(labels, measured)
    rows = [(subset, row) for subset in labels for row in shared[id(subset)]]
    if rows:
        subset, row = rows[0]
        example = " | ".join(_cut(side[row]) for side in (subset.sentences1, subset.sentences2))
        raise UserError(
            f"{len(rows)} of {sum(map(len, labels))} labelled pairs are among those measured, {where} (the first: "
            f"{example}); allowed: other labels, or drop_overlap, which learns without these"
        )


def without_overlap(labels: Sequence[Subset], measured: Measured, where: str) -> tuple[Subset, ...]:
    """Labels without the pairs that are measured, too; a warning says how many were left out.

    Args:
        labels: What would be learned from.
        measured: Gives first and second sentences of the pairs measured.
        where: Task and split of these, for the message.
    """
    shared = _shared(labels, measured)
    dropped = sum(map(len, shared.values()))
    if not dropped:
        return tuple(labels)
    warnings.warn(
        f"{dropped} of {sum(map(len, labels))} labelled pairs are among those measured, {where}: learning without them",
        FlowbertWarning,
        stacklevel=2,
    )
    kept = (_without(subset, shared[id(subset)]) for subset in labels)
    return tuple(subset for subset in kept if len(subset))


def _shared(labels: Sequence[Subset], measured: Measured) -> dict[int, list[int]]:
    """Rows of each subset (by its id) whose pair is measured."""
    if not labels:
        return {}
    known = {_pair(*pair) for pair in zip(*measured(), strict=True)}
    return {
        id(subset): [
            row
            for row, pair in enumerate(zip(subset.sentences1, subset.sentences2, strict=True))
            if _pair(*pair) in known
        ]
        for subset in labels
    }


def _pair(first: str, second: str) -> tuple[str, str]:
    first, second = (" ".join(text.split()).casefold() for text in (first, second))
    return (first, second) if first <= second else (second, first)


def _without(subset: Subset, rows: Sequence[int]) -> Subset:
    out = set(rows)
    kept = [row for row in range(len(subset)) if row not in out]
    first, second = (tuple(side[row] for row in kept) for side in (subset.sentences1, subset.sentences2))
    return Subset(subset.name, first, second, subset.scores[kept])


def _cut(sentence: str) -> str:
    return repr(sentence if len(sentence) <= _SHOWN else f"{sentence[:_SHOWN]}...")

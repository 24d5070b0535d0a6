"""Files of scored sentence pairs; a command line reads them before it imports numpy."""

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from flowbert.data.tables import Row, read_table
from flowbert.errors import UserError

PAIR_COLUMNS = ("sentence1", "sentence2", "score")
"""Columns of a file or data frame of scored pairs."""


class ScoredPairs(NamedTuple):
    """Sentence pairs and their scores, K of each."""

    first: tuple[str, ...]
    second: tuple[str, ...]
    scores: tuple[float, ...]


def read_pairs(path: str | Path, columns: Sequence[str] | None = None) -> list[Row]:
    """Rows of a csv, tsv, jsonl or parquet file of pairs.

    Args:
        path: The file.
        columns: Columns of both sentences and the score; default ``sentence1, sentence2, score``.

    Raises:
        UserError: If the file is missing or damaged, or lacks a column.
    """
    columns = columns or PAIR_COLUMNS
    if len(set(columns)) != 3:
        raise UserError(
            f"received {', '.join(columns)}; expected 3 different names",
            argument="columns",
        )
    return read_table(Path(os.path.expanduser(path)), columns, argument="columns")


def scored_pairs(
    rows: Sequence[Row], low: float = -math.inf, high: float = math.inf
) -> ScoredPairs:
    """Values of rows of sentence, sentence, score.

    Args:
        rows: The rows, at least one.
        low: Lowest score that is allowed.
        high: Highest score that is allowed.

    Raises:
        UserError: If a sentence is empty, a score is not allowed, or all scores are equal.
    """
    first, second, score = rows[0].values
    pairs = ScoredPairs(
        scores=tuple(row.number(score, low, high) for row in rows),
        first=tuple(row.sentence(first) for row in rows),
        second=tuple(row.sentence(second) for row in rows),
    )
    if len(set(pairs.scores)) < 2:
        raise UserError(
            f"{rows[0].path}: {len(rows)} pairs; expected two or more different scores"
        )
    return pairs

"""Sentences in memory: lists, pandas, ``datasets``."""

import reprlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from flowbert.data.tables import choose_columns
from flowbert.errors import UserError

IN_MEMORY = "memory"
"""Name of a corpus in memory."""


def texts_in_memory(source: Any, column: str | None = None) -> tuple[list[str], bool]:
    """Sentences without outer white space, and whether their source has columns.

    Args:
        source: A list or tuple of sentences, a numpy array, a pandas Series or DataFrame, or a
            ``datasets.Dataset``.
        column: Column of the sentences; optional if there is only one.

    Raises:
        UserError: If the source has another type, the column is missing, or a sentence is not text.

    Example:
        >>> texts_in_memory(["A dog runs. "])
        (['A dog runs.'], False)
    """
    names = _columns(source)
    if names is not None:
        layouts = [] if column is None else [[column]]
        (column,) = choose_columns(names, layouts, Path("corpus"), "column")
        if names.count(column) > 1:
            raise UserError(
                f"has {names.count(column)} columns {column!r}; expected one",
                argument="corpus",
            )
        is_frame = hasattr(source, "iloc")
        source = source.iloc[:, names.index(column)] if is_frame else source[column]
    is_list = isinstance(source, Sequence) and not isinstance(source, str | bytes)
    is_vector = getattr(source, "ndim", 0) == 1
    if not is_list and not is_vector:
        raise UserError(
            f"received {_describe(source)}; expected a name, files, a list of sentences, "
            "a pandas Series or DataFrame, or a datasets.Dataset",
            argument="corpus",
        )
    return _checked(source), names is not None


def _columns(source: Any) -> list[str] | None:
    """Names of the columns of a DataFrame or Dataset; None for anything else."""
    if type(source).__name__ == "DataFrame":
        return [str(name) for name in source.columns]
    if type(source).__name__ == "Dataset" and hasattr(source, "column_names"):
        return list(source.column_names)
    return None


def _describe(source: Any) -> str:
    kind = type(source).__name__
    if kind == "DatasetDict":
        return f"a DatasetDict with the splits {', '.join(source)}"
    return f"{kind} {reprlib.repr(source)}"


def _checked(values: Iterable[Any]) -> list[str]:
    texts = []
    for number, value in enumerate(values, start=1):
        if not isinstance(value, str):
            raise UserError(
                f"sentence {number} is {reprlib.repr(value)}; expected text",
                argument="corpus",
            )
        texts.append(value.encode(errors="replace").decode().strip())
    return texts

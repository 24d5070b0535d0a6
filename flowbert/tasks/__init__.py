"""Tasks that embeddings are measured on, by name."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from flowbert.data.answers import load_answers
from flowbert.data.entailment import load_entailment
from flowbert.data.files import as_list
from flowbert.data.sts import SAMPLE, load_sts
from flowbert.data.tables import is_table
from flowbert.errors import UserError, choices
from flowbert.tasks.answers import AnswerRanking
from flowbert.tasks.base import AVERAGE, Record, Task
from flowbert.tasks.lexical import Lexical, LexicalCharacters
from flowbert.tasks.measures import (
    AGGREGATIONS,
    alignment,
    mean_cosine,
    spearman,
    sts_spearman,
    uniformity,
)
from flowbert.tasks.pairs import Pairs
from flowbert.tasks.probe import Probe
from flowbert.tasks.sts import POSITIVE_ABOVE, STS, check_measures

__all__ = [
    "AGGREGATIONS",
    "AVERAGE",
    "POSITIVE_ABOVE",
    "STS",
    "AnswerRanking",
    "Lexical",
    "LexicalCharacters",
    "Pairs",
    "Probe",
    "Record",
    "Task",
    "alignment",
    "load_scoring",
    "load_task",
    "load_tasks",
    "mean_cosine",
    "spearman",
    "sts_spearman",
    "uniformity",
]

RESERVED = (AVERAGE, "alignment", "uniformity", "mean cosine", "mean_cosine")
"""Columns of tables beside the tasks; no task may be called so."""

LEXICAL: dict[str, type[Lexical]] = {
    Lexical.kind: Lexical,
    LexicalCharacters.kind: LexicalCharacters,
}
KINDS: dict[str, type[Task]] = {
    STS.kind: STS,
    **LEXICAL,
    AnswerRanking.kind: AnswerRanking,
    Probe.kind: Probe,
}
"""Prefixes of tasks: ``KIND:SOURCE``; without one it is ``sts``."""


def load_tasks(
    tasks: Any,
    senteval: str | Path | None = None,
    *,
    split: str | Sequence[str] = "test",
    columns: str | Sequence[str] | None = None,
    score_range: Sequence[float] | None = None,
    positive_above: float = POSITIVE_ABOVE,
    uniformity_limit: int | None = None,
) -> list[Task]:
    """Load tasks by name.

    Args:
        tasks: Names or files, comma-separated or as a list: ``STSB``, ``pairs.tsv``,
            ``lexical:STSB``, ``lexical-characters:STSB``, ``answers:FILE``, ``probe:SICKR``; in a
            list also :class:`Pairs` and data frames of them, or tasks.
        senteval: Folder laid out as SentEval's ``data/downstream``, or ``hub``.
        split: Split, or several, of the tasks that have them.
        columns: Columns of own files: two sentences and the score.
        score_range: Lowest and highest score of own files.
        positive_above: Share of the score range above which a pair is a positive of the alignment.
        uniformity_limit: Largest number of sentences for the uniformity; None for all.

    Raises:
        UserError: If a task is unknown, cannot be read, or is named twice, or an option has no
            effect on any of them.
    """
    check_measures(positive_above, uniformity_limit)
    given = _as_items(tasks)
    sources = [_parse(item) for item in given]
    _check_used(
        sources,
        senteval=senteval,
        split=None if split == "test" else split,
        columns=columns,
        score_range=score_range,
        positive_above=None if positive_above == POSITIVE_ABOVE else positive_above,
        uniformity_limit=uniformity_limit,
    )
    splits = as_list(split, "split")
    loaded: list[Task] = []
    for kind, source in sources:
        if isinstance(source, Task):
            loaded.append(source)
        elif kind == "answers":
            loaded.append(AnswerRanking(load_answers(source)))
        elif kind == "probe":
            loaded.append(Probe(load_entailment(source, senteval)))
        else:
            if isinstance(source, Pairs):
                data = source.data()
            else:
                own = is_table(source)
                data = load_sts(
                    source,
                    senteval,
                    columns=(as_list(columns, "columns") or None) if own else None,
                    score_range=score_range if own else None,
                )
            present = [name for name in splits if name in data.splits]
            if not present:
                raise UserError(
                    f"{data.name} has no {splits[0]!r}; expected {choices(data.splits, '')}",
                    argument="split",
                )
            for name in present:
                if kind == "sts":
                    loaded.append(STS(data, name, positive_above, uniformity_limit))
                else:
                    loaded.append(LEXICAL[kind](data, name))
    known = set()
    for task in loaded:
        key = (task.kind, task.name, task.split, task.metrics)
        if key in known:
            raise UserError(
                f"two are called {task.name!r}; expected different file names",
                argument="tasks",
            )
        if task.name in RESERVED:
            raise UserError(
                f"received one called {task.name!r}; expected another name, as tables have "
                "a column of this one",
                argument="tasks",
            )
        known.add(key)
    return loaded


def _as_items(tasks: Any) -> list[Any]:
    """Texts, pairs and tasks; a single one is a list of one."""
    if tasks is None or isinstance(tasks, str):
        return as_list(tasks, "tasks", paths=True)
    if isinstance(tasks, Pairs | pd.DataFrame | Task):
        return [tasks]
    items = list(tasks)
    if all(isinstance(item, str) for item in items):
        return as_list(items, "tasks", paths=True)
    return items


def _parse(item: Any) -> tuple[str, Any]:
    """Kind of a task, and its source: a name, a file, pairs or the task itself."""
    if isinstance(item, pd.DataFrame):
        item = Pairs.of(item)
    if isinstance(item, Task):
        return item.kind, item
    if isinstance(item, Pairs):
        return "sts", item
    if not isinstance(item, str):
        raise UserError(
            argument="tasks",
            received=item,
            expected="names, files, Pairs or data frames",
        )
    prefix, _, rest = item.partition(":")
    return (prefix, rest) if prefix in KINDS else ("sts", item)


def _check_used(sources: Sequence[tuple[str, Any]], **given: Any) -> None:
    """Refuse an option that no task looks at; None is not given.

    Raises:
        UserError: If there is one.
    """
    pairs = [(kind, source) for kind, source in sources if kind in ("sts", *LEXICAL)]
    own = any(isinstance(source, str) and is_table(source) for _, source in pairs)
    measured = any(kind == "sts" and not isinstance(x, Task) for kind, x in pairs)
    named = any(
        isinstance(source, str) and source != SAMPLE and not is_table(source)
        for kind, source in sources
        if kind != "answers"
    )
    users = {
        "senteval": (named, "tasks that are read from it, such as STSB"),
        "split": (bool(pairs), "tasks of sentence pairs"),
        "columns": (own, "own files of pairs"),
        "score_range": (own, "own files of pairs"),
        "positive_above": (measured, "tasks of scored pairs"),
        "uniformity_limit": (measured, "tasks of scored pairs"),
    }
    for name, value in given.items():
        used, expected = users[name]
        if value is not None and not used:
            raise UserError(
                f"received {value!r}, which has no effect on these tasks; expected "
                f"{expected}",
                argument=name,
            )


def load_task(
    name: str, senteval: str | Path | None = None, *, split: str = "test"
) -> Task:
    """Load one task.

    Args:
        name: Its name or file, see :func:`load_tasks`.
        senteval: Folder laid out as SentEval's ``data/downstream``, or ``hub``.
        split: Split of a task that has several.

    Raises:
        UserError: If the task is unknown or cannot be read.
    """
    return load_tasks([name], senteval, split=split)[0]


def load_scoring(state: Mapping[str, Any]) -> Task:
    """A task as :meth:`Task.state` describes it: it scores items, and knows no sentences.

    Args:
        state: Arrays and plain values; lists as tuples have become in JSON.

    Raises:
        UserError: If the kind is unknown here, or values are missing.
    """
    kind = KINDS.get(str(state.get("kind")))
    if kind is None:
        raise UserError(
            f"task: received the kind {state.get('kind')!r}; {choices(KINDS, '')}"
        )
    return kind.from_state(state)

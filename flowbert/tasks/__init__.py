"""Tasks that embeddings are measured on, by name."""

from collections.abc import Sequence
from pathlib import Path

from flowbert.data.answers import load_answers
from flowbert.data.entailment import load_entailment
from flowbert.data.files import as_list
from flowbert.data.sts import load_sts
from flowbert.errors import UserError, choices
from flowbert.tasks.answers import AnswerRanking
from flowbert.tasks.base import Measured, Task
from flowbert.tasks.measures import alignment, mean_cosine, spearman, uniformity
from flowbert.tasks.probe import Probe
from flowbert.tasks.sts import AGGREGATIONS, POSITIVE_ABOVE, STS, Lexical

__all__ = [
    "AGGREGATIONS",
    "POSITIVE_ABOVE",
    "STS",
    "AnswerRanking",
    "Lexical",
    "Measured",
    "Probe",
    "Task",
    "alignment",
    "load_task",
    "load_tasks",
    "mean_cosine",
    "spearman",
    "uniformity",
]

UNITS = {"lexical": "words", "lexical-characters": "characters"}
KINDS = ("sts", *UNITS, "answers", "probe")
"""Prefixes of tasks: ``KIND:SOURCE``; without one it is ``sts``."""


def load_tasks(
    tasks: str | Sequence[str],
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
            ``lexical:STSB``, ``lexical-characters:STSB``, ``answers:FILE``, ``probe:SICKR``.
        senteval: Folder laid out as SentEval's ``data/downstream``, or ``hub``.
        split: Split, or several, of the tasks that have them.
        columns: Columns of own files: two sentences and the score.
        score_range: Lowest and highest score of own files.
        positive_above: Gold score above which a pair is a positive of the alignment.
        uniformity_limit: Largest number of sentences for the uniformity; None for all.

    Raises:
        UserError: If a task is unknown, cannot be read, or is named twice.
    """
    if score_range is not None and len(score_range) != 2:
        raise UserError(f"score_range: received {score_range}; expected two numbers")
    splits = as_list(split, "split")
    loaded: list[Task] = []
    for text in as_list(tasks, "tasks", paths=True):
        prefix, _, rest = text.partition(":")
        kind, source = (prefix, rest) if prefix in KINDS else ("sts", text)
        if kind == "answers":
            loaded.append(AnswerRanking(load_answers(source)))
        elif kind == "probe":
            loaded.append(Probe(load_entailment(source, senteval)))
        else:
            names = as_list(columns, "columns") or None
            data = load_sts(source, senteval, columns=names, score_range=score_range)
            present = [name for name in splits if name in data.splits]
            if not present:
                raise UserError(
                    f"split: {data.name} has no {splits[0]!r}; {choices(data.splits, '')}"
                )
            for name in present:
                if kind == "sts":
                    loaded.append(STS(data, name, positive_above, uniformity_limit))
                else:
                    loaded.append(Lexical(data, name, UNITS[kind]))
    known = set()
    for task in loaded:
        key = (task.kind, task.name, task.split, task.metrics)
        if key in known:
            raise UserError(
                f"tasks: two are called {task.name!r}; expected different file names"
            )
        known.add(key)
    return loaded


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

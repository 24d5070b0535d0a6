"""Tasks by name, of pairs in memory, and restored from results."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from flowbert.data.sample import SPLITS
from flowbert.data.scored_pairs import find_names
from flowbert.data.text_files import as_list
from flowbert.errors import UserError, check_choice
from flowbert.options import POSITIVE_ABOVE
from flowbert.registry import imports_refused, is_import_path
from flowbert.tasks.base import AVERAGE, TASKS, Task
from flowbert.tasks.sts import STS, Pairs


def load_tasks(
    tasks: Any,
    senteval: str | Path | None = None,
    *,
    split: str | Sequence[str] = "test",
    columns: str | Sequence[str] | None = None,
    score_range: Sequence[float] | None = None,
    skip_invalid: bool = False,
    positive_above: float = POSITIVE_ABOVE,
    uniformity_limit: int | None = None,
) -> list[Task]:
    """Load tasks by name.

    Args:
        tasks: Names or files, comma-separated or as a list: ``STSB``, ``all`` seven, ``pairs.tsv``,
            ``lexical:STSB``, ``lexical-characters:STSB``, ``answers:FILE``, ``probe:SICKR``,
            ``mypackage.tasks.MyTask:SOURCE``; in a list also :class:`Pairs` and data frames of
            them, or tasks.
        senteval: Folder laid out as SentEval's ``data/downstream``, or ``hub``.
        split: Split, or several, of the tasks that have them.
        columns: Columns of files of pairs: two sentences and the score.
        score_range: Lowest and highest score of files of pairs.
        skip_invalid: Leave out invalid rows of files of pairs, with a warning.
        positive_above: Share of the score range above which a pair is a positive of the alignment.
        uniformity_limit: Largest number of sentences for the uniformity; None for all.

    Raises:
        UserError: If a task is unknown, cannot be read, or is named twice.
    """
    options = dict(locals())
    loaded: list[Task] = []
    for item in _as_items(tasks):
        if isinstance(item, Task):
            loaded.append(item)
            continue
        kind: type[Task] = STS
        sources = [item]
        if isinstance(item, str):
            prefix, colon, source = item.partition(":")
            if colon and (prefix in TASKS or is_import_path(prefix)):
                kind = TASKS.find(prefix, "tasks")
            else:
                source = item
            sources = find_names(source)
        elif not isinstance(item, Pairs | pd.DataFrame):
            raise UserError(
                argument="tasks",
                received=item,
                expected="names, files, Pairs or data frames",
            )
        used_options = {name: options[name] for name in kind.options}
        for source in sources:
            loaded += kind.load(source, **used_options)
    for name in as_list(split, "split"):
        check_choice("split", name, [*SPLITS, *(task.split for task in loaded)])
    keys = [(task.kind, task.name, task.split, task.metrics) for task in loaded]
    for task, key in zip(loaded, keys, strict=True):
        if keys.count(key) > 1:
            wrong = f"two are called {task.name!r}; expected different file names"
            raise UserError(wrong, argument="tasks")
        if task.name == AVERAGE:
            wrong = f"received one called {AVERAGE!r}, as the mean over tasks is"
            raise UserError(f"{wrong}; expected another name", argument="tasks")
    return loaded


def load_task(name: str, senteval: str | Path | None = None, **options: Any) -> Task:
    """Load one task.

    Args:
        name: Its name or file, see :func:`load_tasks`.
        senteval: Folder laid out as SentEval's ``data/downstream``, or ``hub``.
        **options: Further arguments of :func:`load_tasks`, with one split.

    Raises:
        UserError: If the task is unknown or cannot be read.
    """
    return load_tasks([name], senteval, **options)[0]


def load_scoring(state: Mapping[str, Any]) -> Task:
    """Restore a task from :meth:`Task.state`: it scores items, and has no sentences.

    Args:
        state: Arrays and plain values; lists in place of tuples, as JSON has them.

    Raises:
        UserError: If the kind is unknown, or its module is not imported.
    """
    with imports_refused():
        kind = TASKS.find(str(state.get("kind")))
    return kind.from_state(state)


def _as_items(tasks: Any) -> list[Any]:
    """Texts, pairs and tasks; a single one is a list of one."""
    if isinstance(tasks, Pairs | pd.DataFrame | Task):
        return [tasks]
    items = tasks if tasks is None or isinstance(tasks, str) else list(tasks)
    if isinstance(items, list) and not all(isinstance(item, str) for item in items):
        return items
    return as_list(items, "tasks")

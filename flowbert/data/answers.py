"""Answer ranking: questions, each with candidate sentences of which some answer it."""

import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from flowbert.data.hub import hub_name, read_hub
from flowbert.data.readers import read_table
from flowbert.data.table import Table
from flowbert.errors import FlowbertWarning, UserError, choices

_HUB, _HUB_CONFIG, _HUB_SPLIT = "nyu-mll/glue", "qnli", "validation"
_QNLI = ("question", "label", "sentence")
_LAYOUTS = (("question", "label", "answer"), ("qtext", "label", "atext"), _QNLI)
_ANSWER_LABELS = {"1": True, "0": False}
_QNLI_LABELS = {"0": True, "1": False, "entailment": True, "not_entailment": False}


@dataclass(frozen=True, eq=False)
class AnswerTask:
    """Questions and candidates.

    Attributes:
        name: Name of the task.
        questions: Q distinct questions, in the order of their first candidate.
        answers: N candidate sentences.
        question_of: Question of each candidate, shape ``(N,)``, int64.
        labels: Whether it answers the question, shape ``(N,)``, bool.
    """

    name: str
    questions: tuple[str, ...]
    answers: tuple[str, ...]
    question_of: NDArray[np.int64]
    labels: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.answers)

    def sentences(self) -> list[str]:
        """Every distinct question, then every candidate: the task's own corpus."""
        return [*self.questions, *self.answers]


def load_answers(source: str | Path, vectors: int | None = None) -> AnswerTask:
    r"""Load an answer-ranking task; candidates are grouped by the text of their question.

    Three shapes are known by their columns: ``question, label, answer`` and ``qtext, label, atext`` with the label 1
    for an answer, and QNLI's ``question, label, sentence`` with 0 or ``entailment`` for an answer, 1 or
    ``not_entailment`` for none. A question without an answer among its candidates keeps them for the AUC; a warning
    counts such questions, for which MAP and MRR do not exist (QNLI: the usual case, as most have one candidate).

    Args:
        source: A csv, tsv, jsonl or parquet file; ``"hub"`` for QNLI's validation split; ``"hub:FOLDER"`` for a local
            copy of it.
        vectors: How many vectors there are, if the file holds their row numbers in place of texts.

    Raises:
        UserError: If the file lacks the columns, a label or a text is not allowed, or no pair or every pair is an
            answer; the message names file and line.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "answers.csv"
        >>> _ = path.write_text("qtext,label,atext\nWho ?,1,Ada .\nWho ?,0,A hat .\n")
        >>> task = load_answers(path)
        >>> task.questions, task.labels.tolist()
        (('Who ?',), [True, False])
    """
    hub = hub_name(source)
    if hub is not None and vectors is not None:
        raise UserError(f"answers: received {source!r}, which has sentences; allowed with vectors: files of rows")
    if hub is not None:
        return _task("QNLI", read_hub(hub or _HUB, [_QNLI], config=None if hub else _HUB_CONFIG, split=_HUB_SPLIT))
    path = Path(source).expanduser()
    return _task(path.name.split(".")[0], read_table(path, *_LAYOUTS), vectors)


def _task(name: str, table: Table, vectors: int | None = None) -> AnswerTask:
    question, label, answer = table.columns
    questions, answers = (table.sentences(column, vectors) for column in (question, answer))
    numbers: dict[str, int] = {}
    asked = [numbers.setdefault(text, len(numbers)) for text in questions]
    meaning = _QNLI_LABELS if tuple(table.columns) == _QNLI else _ANSWER_LABELS
    labels = np.array([_label(v, meaning, table.where(i), label) for i, v in enumerate(table.columns[label])])
    if labels.all() or not labels.any():
        kind = "an answer" if labels.all() else "no answer"
        raise UserError(
            f"{table.where(0)}: every pair from here on ({len(labels)} in all) is {kind}; allowed: some of each"
        )
    task = AnswerTask(name, tuple(numbers), answers, np.array(asked, dtype=np.int64), labels)
    _warn_of_unanswered(task, table)
    return task


def _warn_of_unanswered(task: AnswerTask, table: Table) -> None:
    unanswered = np.flatnonzero(np.bincount(task.question_of, weights=task.labels) == 0)
    if len(unanswered):
        row = int(np.argmax(task.question_of == unanswered[0]))
        warnings.warn(
            f"{table.where(row)}: question {task.questions[unanswered[0]]!r} has no candidate that answers it; "
            f"{len(unanswered)} of {len(task.questions)} such questions are left out of MAP and MRR; "
            "allowed without this warning: at least one answer each",
            FlowbertWarning,
            stacklevel=4,
        )


def _label(value: object, meaning: dict[str, bool], where: str, column: str) -> bool:
    if str(value) not in meaning:
        raise UserError(f"{where}: {column} is {value!r}; {choices(meaning, str(value))}")
    return meaning[str(value)]

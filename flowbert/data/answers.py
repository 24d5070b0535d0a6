"""Answer ranking: questions, each with candidate sentences of which some answer it."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from flowbert.data.files import check_file
from flowbert.data.hub import read_hub
from flowbert.data.readers import Table, column_names, read_table
from flowbert.errors import FlowbertWarning, UserError, choices

UNANSWERABLE = ("skip", "drop", "error")
_HUB, _HUB_CONFIG, _HUB_SPLIT = "nyu-mll/glue", "qnli", "validation"
_ANSWERS = ("qtext", "label", "atext")
_PLAIN = ("question", "label", "answer")
_QNLI = ("question", "label", "sentence")
_LAYOUTS = (_PLAIN, _ANSWERS, _QNLI)
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
        without_answer: Questions in the file none of whose candidates answers.
        dropped: Candidates left out with such questions.
    """

    name: str
    questions: tuple[str, ...]
    answers: tuple[str, ...]
    question_of: NDArray[np.int64]
    labels: NDArray[np.bool_]
    without_answer: int
    dropped: int

    def __len__(self) -> int:
        return len(self.answers)

    def sentences(self) -> list[str]:
        """Every distinct question, then every candidate: the task's own corpus."""
        return [*self.questions, *self.answers]


def load_answers(source: str | Path, *, unanswerable: str = "skip") -> AnswerTask:
    r"""Load an answer-ranking task; candidates are grouped by the text of their question.

    Three shapes are known by their columns: ``question, label, answer`` and ``qtext, label, atext`` with the label 1
    for an answer, and QNLI's ``question, label, sentence`` with 0 or ``entailment`` for an answer, 1 or
    ``not_entailment`` for none.

    Args:
        source: A csv, tsv, jsonl or parquet file; ``"hub"`` for QNLI's validation split; ``"hub:FOLDER"`` for a local
            copy of it.
        unanswerable: What to do with a question without an answer among its candidates. ``skip`` keeps its candidates
            for the AUC and leaves it out of MAP and MRR, which do not exist for it, with a warning that counts them
            (QNLI: the usual case, as most of its questions have one candidate); ``drop`` leaves its candidates out of
            everything, with the warning; ``error`` refuses it.

    Raises:
        UserError: If the file lacks the columns, a label or a text is not allowed, no pair or every pair is an answer,
            or ``unanswerable`` is ``error`` and there is such a question; the message names file and line.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "answers.csv"
        >>> _ = path.write_text("qtext,label,atext\nWho ?,1,Ada .\nWho ?,0,A hat .\n")
        >>> task = load_answers(path)
        >>> task.questions, task.labels.tolist()
        (('Who ?',), [True, False])
    """
    if unanswerable not in UNANSWERABLE:
        raise UserError(f"unanswerable is {unanswerable!r}; {choices(UNANSWERABLE, unanswerable)}")
    text = str(source)
    if text == "hub" or text.startswith("hub:"):
        folder = text.removeprefix("hub").removeprefix(":")
        config = None if folder else _HUB_CONFIG
        table = read_hub(folder or _HUB, _QNLI, config=config, split=_HUB_SPLIT)
        return _task("QNLI", table, _QNLI, unanswerable)
    path = Path(source).expanduser()
    check_file(path)
    names = column_names(path)
    layout = next((layout for layout in _LAYOUTS if set(layout) <= set(names)), None)
    if layout is None:
        allowed = " or ".join(", ".join(layout) for layout in _LAYOUTS)
        raise UserError(f"{path}: no answer columns; there are {', '.join(names)}; allowed: {allowed}")
    return _task(path.name.split(".")[0], read_table(path, layout), layout, unanswerable)


def _task(name: str, table: Table, layout: Sequence[str], unanswerable: str) -> AnswerTask:
    question, label, answer = layout
    numbers: dict[str, int] = {}
    asked = [numbers.setdefault(text, len(numbers)) for text in _filled(table, question)]
    question_of = np.array(asked, dtype=np.int64)
    labels = _labels(table, label, _QNLI_LABELS if layout == _QNLI else _ANSWER_LABELS)
    if labels.all() or not labels.any():
        kind = "an answer" if labels.all() else "no answer"
        raise UserError(
            f"{table.where(0)}: every pair from here on ({len(labels)} in all) is {kind}; allowed: some of each"
        )
    answered = np.bincount(question_of, weights=labels, minlength=len(numbers)) > 0
    _report(table, question_of, answered, list(numbers), unanswerable)
    kept = answered[question_of] if unanswerable == "drop" else np.ones(len(labels), dtype=bool)
    texts, left = list(numbers), np.unique(question_of[kept])
    answers = _filled(table, answer)
    return AnswerTask(
        name,
        tuple(texts[number] for number in left),
        tuple(text for text, keep in zip(answers, kept, strict=True) if keep),
        np.searchsorted(left, question_of[kept]).astype(np.int64),
        labels[kept],
        int((~answered).sum()),
        int((~kept).sum()),
    )


def _report(
    table: Table,
    question_of: NDArray[np.int64],
    answered: NDArray[np.bool_],
    questions: Sequence[str],
    unanswerable: str,
) -> None:
    bad = np.flatnonzero(~answered)
    if not len(bad):
        return
    row = int(np.flatnonzero(question_of == bad[0])[0])
    found = f"question {questions[bad[0]]!r} has no candidate that answers it"
    if unanswerable == "error":
        raise UserError(
            f"{table.where(row)}: {found} ({len(bad)} of {len(questions)} questions); allowed: at least one each, "
            "or unanswerable='skip' or 'drop'"
        )
    done = "left out of MAP and MRR" if unanswerable == "skip" else "dropped with their candidates"
    warnings.warn(
        f"{table.where(row)}: {found}; {len(bad)} of {len(questions)} such questions are {done}; "
        "allowed without this warning: at least one answer each",
        FlowbertWarning,
        stacklevel=4,
    )


def _filled(table: Table, column: str) -> tuple[str, ...]:
    texts = [" ".join(text.split()) for text in table.texts(column)]
    for row, text in enumerate(texts):
        if not text:
            raise UserError(f"{table.where(row)}: column {column!r} is empty; allowed: a sentence")
    return tuple(texts)


def _labels(table: Table, column: str, meaning: dict[str, bool]) -> NDArray[np.bool_]:
    values = table.columns[column]
    for row, value in enumerate(values):
        if isinstance(value, bool) or str(value) not in meaning:
            raise UserError(f"{table.where(row)}: {column} is {value!r}; {choices(meaning, str(value))}")
    return np.array([meaning[str(value)] for value in values], dtype=bool)

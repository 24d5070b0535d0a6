"""Answer ranking: questions with candidate sentences, some of which answer them."""

import os
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from flowbert.data.hub import hub_name, read_hub
from flowbert.data.tables import Row, read_table
from flowbert.errors import FlowbertWarning, UserError

_QNLI = ("question", "label", "sentence")
_ANSWER_LAYOUTS = (("question", "label", "answer"), ("qtext", "label", "atext"), _QNLI)
_LABELS = {"1": True, "0": False}
_QNLI_LABELS = {"0": True, "1": False, "entailment": True, "not_entailment": False}


@dataclass(frozen=True, eq=False)
class AnswerData:
    """Questions and candidates.

    Args:
        name: Name of the task.
        questions: Q distinct questions, in the order of their first candidate.
        answers: N candidate sentences.
        question_of: Index of the question of each candidate, shape ``(N,)``, int64.
        labels: Whether a candidate answers its question, shape ``(N,)``, bool.
    """

    name: str
    questions: tuple[str, ...]
    answers: tuple[str, ...]
    question_of: NDArray[np.int64]
    labels: NDArray[np.bool_]


def load_answers(source: str | Path) -> AnswerData:
    r"""Load an answer-ranking task; candidates with the same question text form a group.

    Columns are ``question, label, answer`` or ``qtext, label, atext`` with the label 1 for an
    answer, or QNLI's ``question, label, sentence`` with 0 or ``entailment`` for an answer. A
    question without an answer keeps its candidates for the AUC; a warning counts such questions,
    for which MAP and MRR do not exist.

    Args:
        source: A csv, tsv, jsonl or parquet file; ``"hub"`` for QNLI's validation split, or
            ``"hub:FOLDER"`` for a local copy of it.

    Raises:
        UserError: If the file is missing or damaged, a label is unknown, a sentence is empty, or
            all candidates have the same label.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "answers.csv"
        >>> _ = path.write_text("qtext,label,atext\nWho ?,1,Ada .\nWho ?,0,A hat .\n")
        >>> data = load_answers(path)
        >>> data.questions, data.labels.tolist()
        (('Who ?',), [True, False])
    """
    hub = hub_name(source)
    if hub is None:
        path = Path(os.path.expanduser(source))
        return _data(path.name.split(".")[0], read_table(path, *_ANSWER_LAYOUTS))
    config = None if hub else "qnli"
    return _data(
        "QNLI",
        read_hub(hub or "nyu-mll/glue", _QNLI, config=config, split="validation"),
    )


def _data(name: str, rows: list[Row]) -> AnswerData:
    question, label, answer = rows[0].values
    meaning = _QNLI_LABELS if answer == "sentence" else _LABELS
    questions: dict[str, int] = {}
    question_of = [
        questions.setdefault(row.sentence(question), len(questions)) for row in rows
    ]
    answers = tuple(row.sentence(answer) for row in rows)
    labels = np.array([row.label(label, meaning) for row in rows])
    if labels.all() or not labels.any():
        raise UserError(f"{rows[0].path}: every {label} is {labels[0]}; expected both")
    answered = np.bincount(question_of, weights=labels) > 0
    if not answered.all():
        warnings.warn(
            f"{rows[0].path}: {np.sum(~answered)} of {len(questions)} questions have no answer and "
            "are left out of MAP and MRR",
            FlowbertWarning,
            stacklevel=3,
        )
    return AnswerData(name, tuple(questions), answers, np.array(question_of), labels)

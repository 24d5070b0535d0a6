"""Answer ranking: candidate answers ranked by their cosine with the question, and their files."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from flowbert.arrays import Floats
from flowbert.data.hub import hub_name, read_hub
from flowbert.data.tables import as_label, as_sentence, read_columns, read_frame
from flowbert.data.text_files import table_name
from flowbert.errors import UserError, warn
from flowbert.tasks.base import TASKS, PairTask, ScoreName, Scorer
from flowbert.tasks.measures import METRICS, Counts, Metric

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
    answer, or QNLI's ``question, label, sentence`` with 0 or ``entailment`` for an answer. The
    candidates of a question without an answer count for the AUC, but not for MAP and MRR; a warning
    gives the number of such questions.

    Args:
        source: A table, see :func:`flowbert.data.tables.read_frame`; ``"hub"`` for QNLI's
            validation split, or ``"hub:FOLDER"`` for a local copy of it.

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
        name, rows = table_name(source), read_frame(source, *_ANSWER_LAYOUTS)
    else:
        name = "QNLI"
        rows = read_hub(hub or "nyu-mll/glue?config=qnli", _QNLI, split="validation")
    question, label, answer = rows
    meaning = _QNLI_LABELS if answer == "sentence" else _LABELS
    questions: dict[str, int] = {}
    parsers = {question: as_sentence, answer: as_sentence, label: as_label(meaning)}
    texts, answers, marks = read_columns(rows, parsers)
    question_of = [questions.setdefault(text, len(questions)) for text in texts]
    labels = np.array(marks)
    source = rows.attrs["source"]
    if labels.all() or not labels.any():
        raise UserError(f"{source}: every {label} is {labels[0]}; expected both")
    answered = np.bincount(question_of, weights=labels) > 0
    if not answered.all():
        warn(
            f"{source}: {np.sum(~answered)} of {len(questions)} questions have no answer and "
            "are left out of MAP and MRR",
        )
    return AnswerData(
        name, tuple(questions), tuple(answers), np.array(question_of), labels
    )


METRICS |= {name: Metric(name.upper()) for name in ("auc", "map", "mrr")}


@TASKS.register("answers")
class AnswerRanking(PairTask):
    """Area under the ROC curve over all pairs, MAP and MRR over the questions.

    Args:
        data: Questions and candidates.

    References:
        On the Sentence Embeddings from Pre-trained Language Models (Li et al., 2020), table 4.
        https://arxiv.org/abs/2011.05864
    """

    metrics = (("auc", "all"), ("map", "all"), ("mrr", "all"))
    headline = "auc"
    scored_with = ("question_of", "is_answer")

    def __init__(self, data: AnswerData) -> None:
        questions = [data.questions[index] for index in data.question_of]
        super().__init__(
            data.name,
            questions,
            data.answers,
            strata=[len(data.questions)],
            sentences=[*data.questions, *data.answers],
        )
        self.question_of, self.is_answer = data.question_of, data.labels
        self._questions = data.questions

    @classmethod
    def load(cls, source: str, **options: Any) -> list[Self]:
        """The task of a file or of QNLI, see :func:`flowbert.extras.tasks.answers.load_answers`."""
        return [cls(load_answers(source, **options))]

    def texts(self) -> Mapping[str, Sequence[str]]:
        """Questions, once each, and candidates."""
        _, answers = self.pairs()
        return {self.split: [*self._questions, *answers]}

    def score(self, items: Floats) -> dict[ScoreName, float]:
        """AUC over the pairs, MAP and MRR over the questions that have an answer."""
        values = self._scorer(items)(np.ones(self.strata, np.int32))
        return dict(zip(self.metrics, map(float, values), strict=True))

    def scorer(self, items: Sequence[Floats]) -> Scorer:
        """The same, sorting once for all resamples."""
        scorers = [self._scorer(row) for row in items]
        return lambda weights: np.stack([scores(weights) for scores in scorers], axis=1)

    def _scorer(self, items: Floats) -> Callable[[Counts], Floats]:
        """Scores ``(3, ...)`` as a function of weights of the questions ``(..., Q)``."""
        by_question = self._by_question(items)
        answered, values = by_question.index, by_question.to_numpy().T
        order = np.argsort(items, kind="stable")
        is_answer, question_of = self.is_answer[order], self.question_of[order]
        starts = np.flatnonzero(np.diff(items[order], prepend=-np.inf))

        def scores(weights: Counts) -> Floats:
            drawn = weights[..., question_of].astype(np.float64)
            right, wrong = (
                np.add.reduceat(drawn * counts, starts, axis=-1)
                for counts in (is_answer, ~is_answer)
            )
            # Equal cosines count by half.
            below = np.cumsum(wrong, axis=-1) - wrong / 2
            drawn = weights[..., answered].astype(np.float64)
            with np.errstate(invalid="ignore"):  # a resample may have no answer
                area = (right * below).sum(-1) / (right.sum(-1) * wrong.sum(-1))
                # Row by row: one product may round equal rows differently.
                means = [drawn @ row / drawn.sum(axis=-1) for row in values]
            return np.stack([area, *means])

        return scores

    def _by_question(self, items: Floats) -> pd.DataFrame:
        """Average precision and reciprocal rank of each question that has an answer."""
        columns = {"question": self.question_of, "is_answer": self.is_answer}
        rows = pd.DataFrame(columns | {"cosine": items})
        # Of equal cosines, those of wrong candidates come first.
        rows = rows.sort_values(["cosine", "is_answer"], ascending=[False, True])
        ranked = rows.groupby("question")
        rows["rank"] = ranked.cumcount() + 1
        rows["precision"] = ranked["is_answer"].cumsum() / rows["rank"]
        right = rows[rows["is_answer"]].groupby("question")
        return pd.DataFrame(
            {"map": right["precision"].mean(), "mrr": 1 / right["rank"].min()}
        )

"""Answer ranking by cosine: area under the curve over all pairs, MAP and MRR over questions."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import rankdata

from flowbert.data.answers import AnswerTask
from flowbert.errors import NoFigureError, UserError
from flowbert.tasks.protocol import Embed, Transform, cosine
from flowbert.tasks.ties import expected_average_precision, expected_reciprocal_rank, tie_groups

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class RankingFigures:
    """Figures of one answer-ranking task, in [0, 1].

    Attributes:
        task: Name of the task.
        auc: Probability that an answer's cosine exceeds a non-answer's, over all pairs of the task.
        map: Mean average precision over the questions that have an answer.
        mrr: Mean reciprocal rank of the first answer, over the same questions.
        pairs: Number of pairs.
        positives: How many of them are answers.
        questions: Number of questions.
        ranked_questions: How many of them have an answer, so that MAP and MRR exist.
    """

    task: str
    auc: float
    map: float
    mrr: float
    pairs: int
    positives: int
    questions: int
    ranked_questions: int


def area_under_curve(scores: Floats, labels: NDArray[np.bool_]) -> float:
    r"""Area under the ROC curve :math:`(\sum_{i \in +} r_i - p (p + 1) / 2) / (p\, q)` by mid-ranks r, exact with ties.

    Equal to ``sklearn.metrics.roc_auc_score``.

    Args:
        scores: Finite values of shape ``(N,)``.
        labels: Which are positive, shape ``(N,)``.

    Raises:
        UserError: If a score is not finite, the lengths differ, or one of the two classes is empty.

    Example:
        >>> area_under_curve(np.array([0.1, 0.4, 0.4, 0.8]), np.array([False, False, True, True]))
        0.875
    """
    scores, labels = _checked(scores, labels)
    positives = int(labels.sum())
    negatives = len(labels) - positives
    if positives == 0 or negatives == 0:
        raise UserError(f"{positives} positives and {negatives} negatives; allowed: at least one of each")
    ranks = rankdata(scores)
    return float((ranks[labels].sum() - positives * (positives + 1) / 2) / (positives * negatives))


def average_precision(scores: Floats, labels: NDArray[np.bool_]) -> float:
    """Average precision of one question: mean over its answers of the precision at their rank.

    Equal scores count as in a random order (the exact expectation), so the order in the file plays no role; without
    ties it equals ``sklearn.metrics.average_precision_score``.

    References:
        Computing Information Retrieval Performance Measures Efficiently in the Presence of Tied Scores
        (McSherry, Najork, 2008). https://doi.org/10.1007/978-3-540-78646-7_38

    Raises:
        UserError: If a score is not finite, the lengths differ, or nothing is positive.

    Example:
        >>> round(average_precision(np.array([0.9, 0.5, 0.1]), np.array([True, False, True])), 4)
        0.8333
    """
    return expected_average_precision(tie_groups(*_with_positive(scores, labels)))


def reciprocal_rank(scores: Floats, labels: NDArray[np.bool_]) -> float:
    """1 / rank of the first answer of one question; equal scores count as in a random order (the exact expectation).

    Raises:
        UserError: If a score is not finite, the lengths differ, or nothing is positive.

    Example:
        >>> reciprocal_rank(np.array([0.9, 0.5, 0.1]), np.array([False, True, True]))
        0.5
    """
    return expected_reciprocal_rank(tie_groups(*_with_positive(scores, labels)))


def rank_answers(task: AnswerTask, embed: Embed, transform: Transform | None = None) -> RankingFigures:
    """Figures of a task by the cosine of question and answer; each distinct text is embedded once.

    Args:
        task: From :func:`flowbert.data.answers.load_answers`.
        embed: From M sentences to embeddings of shape ``(M, D)``, torch or numpy.
        transform: Map of the embeddings, e.g. a fitted calibration's ``transform``; None leaves them raw.

    Raises:
        UserError: If a cosine does not exist (a vector without direction).
    """
    rows = {text: row for row, text in enumerate(dict.fromkeys((*task.questions, *task.answers)))}
    embeddings = torch.as_tensor(embed(list(rows)))
    mapped = embeddings if transform is None else transform(embeddings)
    questions = _rows(rows, task.questions)[task.question_of]
    return ranking_figures(task, cosine(mapped[questions], mapped[_rows(rows, task.answers)]))


def ranking_figures(task: AnswerTask, scores: Floats) -> RankingFigures:
    """Figures of a task from one score per pair, shape ``(N,)``.

    AUC is over all pairs, also those of questions without an answer; MAP and MRR do not exist for these questions.
    """
    auc = area_under_curve(scores, task.labels)
    by_question = question_values(task, scores)
    precision, rank = by_question[:, ~np.isnan(by_question[0])]
    return RankingFigures(
        task=task.name,
        auc=auc,
        map=float(np.mean(precision)),
        mrr=float(np.mean(rank)),
        pairs=len(scores),
        positives=int(task.labels.sum()),
        questions=len(task.questions),
        ranked_questions=len(rank),
    )


def question_values(task: AnswerTask, scores: Floats) -> Floats:
    """Average precision and reciprocal rank of each question: shape ``(2, Q)``, NaN for one without an answer."""
    found = np.full((2, len(task.questions)), np.nan)
    order = np.argsort(task.question_of, kind="stable")
    starts = np.flatnonzero(np.diff(task.question_of[order], prepend=-1))
    for rows in np.split(order, starts[1:]):
        own, labels = scores[rows], task.labels[rows]
        if labels.any():
            found[:, task.question_of[rows[0]]] = average_precision(own, labels), reciprocal_rank(own, labels)
    return found


def _rows(rows: dict[str, int], texts: Sequence[str]) -> NDArray[np.int64]:
    return np.array([rows[text] for text in texts], dtype=np.int64)


def _checked(scores: Floats, labels: NDArray[np.bool_]) -> tuple[Floats, NDArray[np.bool_]]:
    scores, labels = np.asarray(scores, dtype=np.float64), np.asarray(labels, dtype=bool)
    if scores.ndim != 1 or scores.shape != labels.shape:
        raise UserError(f"scores have the shape {scores.shape} and labels {labels.shape}; allowed: both (N,)")
    bad = int((~np.isfinite(scores)).sum())
    if bad:
        raise NoFigureError(f"{bad} of {len(scores)} scores are NaN or infinite; allowed: finite numbers")
    return scores, labels


def _with_positive(scores: Floats, labels: NDArray[np.bool_]) -> tuple[Floats, NDArray[np.bool_]]:
    scores, labels = _checked(scores, labels)
    if not labels.any():
        raise UserError(f"none of {len(labels)} candidates is positive; allowed: at least one")
    return scores, labels

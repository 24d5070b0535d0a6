"""Paired bootstrap over questions: how sure the figures of an answer ranking, or a difference of two, are."""

import numpy as np
from numpy.typing import NDArray

from flowbert.data.answers import AnswerTask
from flowbert.errors import UserError
from flowbert.evaluation.bootstrap import Replicates
from flowbert.evaluation.pairs import ScoredPairs
from flowbert.evaluation.protocol import AGGREGATIONS
from flowbert.evaluation.ranking import average_precision, ranking_figures, reciprocal_rank

Floats = NDArray[np.float64]
METRICS = ("auc", "map", "mrr")
_BLOCK = 64  # resamples at a time: bounds the memory


def bootstrap_ranking(
    task: AnswerTask, pairs: ScoredPairs, *, resamples: int = 1000, seed: int = 0
) -> dict[str, Replicates]:
    """Resample questions, with all their candidates, and compute every method's AUC, MAP and MRR on each resample.

    Questions, not pairs, are drawn: the candidates of one question are not independent. All methods see the same
    resamples. A resample without an answer, or without a candidate that is none, has no figure and is left out.

    References:
        An Introduction to the Bootstrap (Efron, Tibshirani, 1993), chapter 8. https://doi.org/10.1007/978-1-4899-4541-9

    Args:
        task: The task.
        pairs: Every method's score of each of its pairs, as one subset.
        resamples: Number R of resamples.
        seed: Seed.

    Returns:
        Metric -> replicates; the three aggregations agree, as there are no subsets.

    Raises:
        UserError: If the numbers of pairs differ or ``resamples`` is below 1.

    Example:
        >>> labels, question = np.array([True, False] * 20), np.repeat(np.arange(20), 2)
        >>> task = AnswerTask("T", ("q",) * 20, ("a",) * 40, question, labels, 0, 0)
        >>> pairs = ScoredPairs("T", "test", ("T",), (labels * 1.0,), {"exact": (labels * 1.0,)})
        >>> bootstrap_ranking(task, pairs, resamples=50)["auc"].interval("exact").text()
        '100.0 [100.0, 100.0]'
    """
    if resamples < 1:
        raise UserError(f"resamples is {resamples}; allowed: a whole number of at least 1")
    if len(pairs) != len(task):
        raise UserError(f"{len(pairs)} scores for {len(task)} pairs of {task.name}; allowed: as many")
    generator = np.random.default_rng(seed)
    size = len(task.questions)
    counts = generator.multinomial(size, np.full(size, 1 / size), size=resamples)
    scores = {method: pairs.concatenated(method) for method in pairs.predicted}
    values = np.array([_replicates(task, counts, values) for values in scores.values()])
    points = np.array(
        [[getattr(ranking_figures(task, values), metric) for metric in METRICS] for values in scores.values()]
    )
    shape = (len(scores), len(AGGREGATIONS))
    return {
        metric: Replicates(
            f"{task.name} {metric}",
            tuple(scores),
            np.broadcast_to(points[:, [place]], shape),
            np.broadcast_to(values[:, [place]], (*shape, resamples)),
            len(task),
            seed,
        )
        for place, metric in enumerate(METRICS)
    }


def _replicates(task: AnswerTask, counts: NDArray[np.int64], scores: Floats) -> Floats:
    """AUC, MAP and MRR of one method on every resample: shape ``(3, R)``."""
    answered, precision, rank = _by_question(task, scores)
    weights = counts[:, answered].astype(np.float64)
    total = weights.sum(axis=1)
    total[total == 0] = np.nan
    return np.stack([_areas(task, counts, scores), weights @ precision / total, weights @ rank / total])


def _by_question(task: AnswerTask, scores: Floats) -> tuple[NDArray[np.int64], Floats, Floats]:
    """Questions that have an answer, and the average precision and reciprocal rank of each."""
    order = np.argsort(task.question_of, kind="stable")
    starts = np.flatnonzero(np.diff(task.question_of[order], prepend=-1))
    groups = [rows for rows in np.split(order, starts[1:]) if task.labels[rows].any()]
    answered = np.array([task.question_of[rows[0]] for rows in groups], dtype=np.int64)
    precision, rank = (
        np.array([measure(scores[rows], task.labels[rows]) for rows in groups])
        for measure in (average_precision, reciprocal_rank)
    )
    return answered, precision, rank


def _areas(task: AnswerTask, counts: NDArray[np.int64], scores: Floats) -> Floats:
    """Area under the curve on every resample, ties by half: shape ``(R,)``."""
    order = np.argsort(scores, kind="stable")
    ordered, labels = scores[order], task.labels[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-np.inf))
    areas = []
    for first in range(0, len(counts), _BLOCK):
        weights = counts[first : first + _BLOCK, task.question_of[order]].astype(np.float64)
        positive, negative = (np.add.reduceat(weights * side, starts, axis=1) for side in (labels, ~labels))
        below = np.cumsum(negative, axis=1) - negative / 2
        product = positive.sum(axis=1) * negative.sum(axis=1)
        product[product == 0] = np.nan
        areas.append((positive * below).sum(axis=1) / product)
    return np.concatenate(areas)

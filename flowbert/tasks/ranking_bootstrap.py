"""Paired bootstrap over questions: how sure the figures of an answer ranking, or a difference of two, are."""

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from flowbert.data.answers import AnswerTask
from flowbert.errors import UserError
from flowbert.tasks.bootstrap import Replicates
from flowbert.tasks.pairs import ScoredPairs
from flowbert.tasks.ranking import question_values, ranking_figures
from flowbert.tasks.resampling import Counts, blocks, check_resampling
from flowbert.tasks.unit_bootstrap import by_metric, unit_means

Floats = NDArray[np.float64]
METRICS = ("auc", "map", "mrr")


def bootstrap_ranking(
    task: AnswerTask, pairs: ScoredPairs, *, resamples: int = 1000, seed: int = 0
) -> dict[str, Replicates]:
    """Resample questions, with all their candidates, and compute every method's AUC, MAP and MRR on each resample.

    Questions, not pairs, are drawn: the candidates of one question are not independent. All methods see the same
    resamples. A resample without an answer, or without a candidate that is none, has no figure and is left out. A
    method with a score that is not finite has no figure at all.

    References:
        An Introduction to the Bootstrap (Efron, Tibshirani, 1993), chapter 8. https://doi.org/10.1007/978-1-4899-4541-9

    Args:
        task: The task.
        pairs: Every method's score of each of its pairs, as one subset.
        resamples: Number R of resamples.
        seed: Seed, at least 0.

    Returns:
        Metric -> replicates; the three aggregations agree, as there are no subsets.

    Raises:
        UserError: If a number is out of range, there is no method, or the numbers of pairs differ.

    Example:
        >>> labels, question = np.array([True, False] * 20), np.repeat(np.arange(20), 2)
        >>> task = AnswerTask("T", ("q",) * 20, ("a",) * 40, question, labels)
        >>> pairs = ScoredPairs("T", "test", ("T",), (labels * 1.0,), {"exact": (labels * 1.0,)})
        >>> bootstrap_ranking(task, pairs, resamples=50)["auc"].interval("exact").text()
        '100.0 [100.0, 100.0]'
    """
    check_resampling(task.name, len(pairs.predicted), resamples=resamples, seed=seed)
    if len(pairs) != len(task):
        raise UserError(f"{len(pairs)} scores for {len(task)} pairs of {task.name}; allowed: as many")
    scores = [pairs.concatenated(method) for method in pairs.predicted]
    methods = [_Method(task, each) if np.isfinite(each).all() else None for each in scores]
    values = np.concatenate(
        [
            np.array([_figures(method, counts) for method in methods])
            for counts in _draws(task, len(pairs), resamples, seed)
        ],
        axis=2,
    )
    points = np.array([_points(task, each) for each in scores])
    figures = {metric: (points[:, place], values[:, place]) for place, metric in enumerate(METRICS)}
    return by_metric(task.name, tuple(pairs.predicted), figures, len(task), seed)


def _draws(task: AnswerTask, values: int, resamples: int, seed: int) -> Iterator[Counts]:
    for block in blocks(task.name, values, resamples, seed):
        yield block.multiplicities([len(task.questions)])


def _points(task: AnswerTask, scores: Floats) -> list[float]:
    if not np.isfinite(scores).all():
        return [math.nan] * len(METRICS)
    figures = ranking_figures(task, scores)
    return [getattr(figures, metric) for metric in METRICS]


def _figures(method: "_Method | None", counts: Counts) -> Floats:
    return np.full((len(METRICS), len(counts)), math.nan) if method is None else method.figures(counts)


class _Method:
    """One method's pairs, sorted once: its figures on any resample of the questions from their multiplicities."""

    def __init__(self, task: AnswerTask, scores: Floats) -> None:
        order = np.argsort(scores, kind="stable")
        self.by_question = question_values(task, scores)
        self.question_of, self.labels = task.question_of[order], task.labels[order]
        self.starts = np.flatnonzero(np.diff(scores[order], prepend=-np.inf))

    def figures(self, counts: Counts) -> Floats:
        """AUC, MAP and MRR on every resample: shape ``(3, R)``; NaN where one does not exist."""
        return np.concatenate([self._areas(counts)[None], unit_means(self.by_question, counts)])

    def _areas(self, counts: Counts) -> Floats:
        """Area under the curve, ties by half: shape ``(R,)``."""
        weights = counts[:, self.question_of].astype(np.float64)
        sides = (self.labels, ~self.labels)
        positive, negative = (np.add.reduceat(weights * side, self.starts, axis=1) for side in sides)
        below = np.cumsum(negative, axis=1) - negative / 2
        product = positive.sum(axis=1) * negative.sum(axis=1)
        product[product == 0] = np.nan
        areas: Floats = (positive * below).sum(axis=1) / product
        return areas

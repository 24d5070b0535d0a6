"""Resampled questions give what the plain functions give on the repeated pairs."""

import numpy as np
import pytest
from numpy.typing import NDArray

from flowbert.data.answers import AnswerTask
from flowbert.errors import UserError
from flowbert.tasks import resampling
from flowbert.tasks.pairs import ScoredPairs
from flowbert.tasks.ranking import area_under_curve, average_precision, ranking_figures, reciprocal_rank
from flowbert.tasks.ranking_bootstrap import bootstrap_ranking

GENERATOR = np.random.default_rng(0)
QUESTION_OF = GENERATOR.permutation(np.repeat(np.arange(15), 5))
LABELS = (GENERATOR.uniform(size=75) < 0.3) & (QUESTION_OF != 4)  # question 4 has no answer
TASK = AnswerTask("T", tuple(f"q{n}" for n in range(15)), tuple(f"a{n}" for n in range(75)), QUESTION_OF, LABELS)
TIED = np.round(LABELS + GENERATOR.normal(size=75), 1)
SHARP = LABELS + GENERATOR.normal(size=75) / 4


def pairs(**methods: NDArray[np.float64]) -> ScoredPairs:
    predicted = {name: (values.astype(np.float64),) for name, values in methods.items()}
    return ScoredPairs("T", "test", ("T",), (LABELS.astype(np.float64),), predicted)


def test_replicates_are_the_figures_of_the_repeated_pairs() -> None:
    found = bootstrap_ranking(TASK, pairs(tied=TIED), resamples=20, seed=3)
    counts = np.concatenate([block.multiplicities([15]) for block in resampling.blocks("T", 75, 20, 3)])
    for number, drawn in enumerate(counts):
        rows = np.repeat(np.arange(75), drawn[QUESTION_OF])
        assert found["auc"].values[0, 0, number] == pytest.approx(area_under_curve(TIED[rows], LABELS[rows]), abs=1e-12)
        for metric, measure in (("map", average_precision), ("mrr", reciprocal_rank)):
            each = [
                measure(TIED[question == QUESTION_OF], LABELS[question == QUESTION_OF])
                for question in np.repeat(np.arange(15), drawn)
                if LABELS[question == QUESTION_OF].any()
            ]
            assert found[metric].values[0, 2, number] == pytest.approx(np.mean(each), abs=1e-12)


def test_points_are_the_figures_and_methods_are_paired() -> None:
    found = bootstrap_ranking(TASK, pairs(sharp=SHARP, same=SHARP, tied=TIED), resamples=300)
    figures = ranking_figures(TASK, SHARP)
    for metric in ("auc", "map", "mrr"):
        assert found[metric].interval("sharp").value == getattr(figures, metric)
        same = found[metric].difference("sharp", "same")
        assert (same.low, same.high) == (0, 0)
    assert found["auc"].difference("sharp", "tied").excludes_zero


def test_blocks_change_nothing_but_the_draws_and_the_seed_does(monkeypatch: pytest.MonkeyPatch) -> None:
    first, again = (bootstrap_ranking(TASK, pairs(tied=TIED), resamples=30, seed=1)["map"].values for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert (bootstrap_ranking(TASK, pairs(tied=TIED), resamples=30, seed=2)["map"].values != first).any()
    monkeypatch.setattr(resampling, "_BLOCK_VALUES", 160)  # two resamples at a time
    test_replicates_are_the_figures_of_the_repeated_pairs()


def test_resamples_without_an_answer_are_left_out() -> None:
    questions, labels = np.repeat(np.arange(3), 2), np.array([True, False, False, False, False, False])
    task = AnswerTask("T", ("p", "q", "r"), tuple("abcdef"), questions, labels)
    gold = ScoredPairs("T", "test", ("T",), (labels * 1.0,), {"m": (np.array([0.9, 0.1, 0.3, 0.2, 0.4, 0.5]),)})
    for metric, replicates in bootstrap_ranking(task, gold, resamples=900).items():
        interval = replicates.interval("m")
        assert interval.resamples + interval.dropped == 900
        # Without the one question that has an answer, and, for AUC, with nothing that is none: (2 / 3) ** 3.
        assert interval.dropped / 900 == pytest.approx(8 / 27, abs=0.05), metric


def test_other_numbers_of_pairs_are_refused() -> None:
    short = ScoredPairs("T", "test", ("T",), (np.ones(3),), {"a": (np.ones(3),)})
    with pytest.raises(UserError, match="3 scores for 75 pairs"):
        bootstrap_ranking(TASK, short)
    with pytest.raises(UserError, match="resamples is 0"):
        bootstrap_ranking(TASK, pairs(a=TIED), resamples=0)

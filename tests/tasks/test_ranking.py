"""Answer ranking against scikit-learn, with ties, unanswerable questions and real files."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score

from flowbert.data.answers import AnswerTask, load_answers
from flowbert.errors import FlowbertWarning, UserError
from flowbert.tasks.ranking import area_under_curve, average_precision, rank_answers, ranking_figures, reciprocal_rank

mixed = st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=2, max_size=30).filter(
    lambda rows: 0 < sum(label for _, label in rows) < len(rows)
)


@given(mixed)
def test_auc_equals_sklearn_with_ties(rows: list[tuple[int, bool]]) -> None:
    scores, labels = np.array([float(score) for score, _ in rows]), np.array([label for _, label in rows])
    assert area_under_curve(scores, labels) == pytest.approx(roc_auc_score(labels, scores), abs=1e-9)


def test_average_precision_equals_sklearn_without_ties() -> None:
    generator = np.random.default_rng(0)
    for _ in range(20):
        labels = generator.random(15) < 0.3
        labels[3] = True
        scores = generator.normal(size=15)
        assert average_precision(scores, labels) == pytest.approx(average_precision_score(labels, scores), abs=1e-9)
        first = int(np.flatnonzero(labels[np.argsort(-scores)])[0])
        assert reciprocal_rank(scores, labels) == 1 / (first + 1)


def made_task(seed: int = 0) -> AnswerTask:
    """Six questions with four candidates each; the last has no answer."""
    labels = np.random.default_rng(seed).random(24) < 0.4
    labels[::4], labels[20:] = True, False
    questions, answers = tuple(f"q{i}" for i in range(6)), tuple(f"a{i}" for i in range(24))
    return AnswerTask("T", questions, answers, np.repeat(np.arange(6), 4), labels)


def embedding(texts: Sequence[str]) -> torch.Tensor:
    return torch.stack(
        [torch.randn(5, generator=torch.Generator().manual_seed(1000 * ord(text[0]) + int(text[1:]))) for text in texts]
    )


def test_figures_over_pairs_and_questions() -> None:
    task = made_task()
    found = rank_answers(task, embedding)
    scores = torch.cosine_similarity(
        embedding([task.questions[q] for q in task.question_of]), embedding(task.answers)
    ).numpy()
    assert found.auc == pytest.approx(roc_auc_score(task.labels, scores), abs=1e-9)
    by_question = [
        average_precision_score(task.labels[task.question_of == q], scores[task.question_of == q]) for q in range(5)
    ]
    assert found.map == pytest.approx(np.mean(by_question), abs=1e-9)
    assert (found.pairs, found.questions, found.ranked_questions) == (24, 6, 5)
    assert found.positives == int(task.labels.sum())


def test_order_of_the_file_plays_no_role() -> None:
    task = made_task()
    scores = np.round(np.random.default_rng(1).random(24), 1)
    order = np.random.default_rng(2).permutation(24)
    answers = tuple(task.answers[row] for row in order)
    shuffled = AnswerTask("T", task.questions, answers, task.question_of[order], task.labels[order])
    expected, found = ranking_figures(task, scores), ranking_figures(shuffled, scores[order])
    assert (found.auc, found.map, found.mrr) == pytest.approx((expected.auc, expected.map, expected.mrr), abs=1e-12)


def test_a_map_of_the_embeddings_is_applied() -> None:
    task = made_task()
    mapped = rank_answers(task, embedding, lambda x: x - x.mean(dim=0))
    assert mapped.auc != rank_answers(task, embedding).auc


def test_constant_scores_are_chance() -> None:
    task = made_task()
    assert ranking_figures(task, np.zeros(24)).auc == 0.5


def test_bad_arguments() -> None:
    yes, no = np.array([True, True]), np.array([False, False])
    with pytest.raises(UserError, match="2 positives and 0 negatives; allowed: at least one of each"):
        area_under_curve(np.arange(2.0), yes)
    with pytest.raises(UserError, match="none of 2 candidates is positive; allowed: at least one"):
        average_precision(np.arange(2.0), no)
    with pytest.raises(UserError, match="1 of 2 scores are NaN or infinite; allowed: finite numbers"):
        reciprocal_rank(np.array([0.0, np.nan]), yes)
    with pytest.raises(UserError, match=r"scores have the shape \(3,\) and labels \(2,\); allowed: both \(N,\)"):
        area_under_curve(np.arange(3.0), yes)
    with (
        pytest.warns(FlowbertWarning, match="have no direction"),
        pytest.raises(UserError, match="24 of 24 scores are NaN"),
    ):
        rank_answers(made_task(), lambda texts: torch.zeros(len(texts), 3))


@pytest.mark.real
def test_real_answers_run_with_a_bag_of_words(real: Path) -> None:
    with pytest.warns(FlowbertWarning, match=r"answers-test\.csv:12: .*; 6 of 95 such questions are left out"):
        task = load_answers(real / "data" / "corpora" / "answers-test.csv")
    words = {word: place for place, word in enumerate(sorted({w for t in task.sentences() for w in t.split()}))}

    def bag(texts: Sequence[str]) -> torch.Tensor:
        rows = torch.zeros(len(texts), len(words))
        for row, text in enumerate(texts):
            rows[row, [words[word] for word in text.split()]] = 1
        return rows

    found = rank_answers(task, bag)
    assert (found.pairs, found.positives, found.questions, found.ranked_questions) == (1517, 284, 95, 89)
    assert 0.55 < found.auc < 0.8

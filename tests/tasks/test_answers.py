"""Answer ranking against scikit-learn, with ties, unanswerable questions, resampled questions and real files."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, roc_auc_score

from flowbert.data.answers import AnswerTask, load_answers
from flowbert.errors import FlowbertWarning, UserError
from flowbert.tasks import AnswerRanking, TaskOptions, resampling
from flowbert.tasks.answers import area_under_curve, question_values

mixed = st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=2, max_size=30).filter(
    lambda rows: 0 < sum(label for _, label in rows) < len(rows)
)


@given(mixed)
def test_auc_equals_sklearn_with_ties(rows: list[tuple[int, bool]]) -> None:
    scores, labels = np.array([float(score) for score, _ in rows]), np.array([label for _, label in rows])
    assert area_under_curve(scores, labels) == pytest.approx(roc_auc_score(labels, scores), abs=1e-9)


def one_question(labels: NDArray[np.bool_]) -> AnswerTask:
    return AnswerTask("T", ("q",), ("a",) * len(labels), np.zeros(len(labels), dtype=np.int64), labels)


def test_a_question_equals_sklearn_without_ties() -> None:
    generator = np.random.default_rng(0)
    for _ in range(20):
        labels = generator.random(15) < 0.3
        labels[3] = True
        scores = generator.normal(size=15)
        ((precision,), (reciprocal,)) = question_values(one_question(labels), scores)
        assert precision == pytest.approx(average_precision_score(labels, scores), abs=1e-9)
        assert reciprocal == 1 / (int(np.flatnonzero(labels[np.argsort(-scores)])[0]) + 1)


def made_task(seed: int = 0) -> AnswerRanking:
    """Six questions with four candidates each; the last has no answer."""
    labels = np.random.default_rng(seed).random(24) < 0.4
    labels[::4], labels[20:] = True, False
    questions, answers = tuple(f"q{i}" for i in range(6)), tuple(f"a{i}" for i in range(24))
    return AnswerRanking(AnswerTask("T", questions, answers, np.repeat(np.arange(6), 4), labels))


def embedding(texts: Sequence[str]) -> torch.Tensor:
    return torch.stack(
        [torch.randn(5, generator=torch.Generator().manual_seed(1000 * ord(text[0]) + int(text[1:]))) for text in texts]
    )


def test_figures_over_pairs_and_questions() -> None:
    task = made_task()
    measured = task.measure(task.prepare(embedding))
    questions, answers = task.pairs()
    scores = torch.cosine_similarity(embedding(questions), embedding(answers)).numpy()
    np.testing.assert_allclose(measured.items, scores, atol=1e-6)
    auc, precision, _ = (figure.value for figure in measured.figures)
    labels, question_of = task.data.labels, task.data.question_of
    assert auc == pytest.approx(roc_auc_score(labels, scores), abs=1e-9)
    by_question = [average_precision_score(labels[question_of == q], scores[question_of == q]) for q in range(5)]
    assert precision == pytest.approx(np.mean(by_question), abs=1e-9)
    assert measured.columns == {"task": "T", "split": "test", "pairs": 24}


def test_order_of_the_file_plays_no_role() -> None:
    task = made_task().data
    scores = np.round(np.random.default_rng(1).random(24), 1)
    order = np.random.default_rng(2).permutation(24)
    answers = tuple(task.answers[row] for row in order)
    shuffled = AnswerTask("T", task.questions, answers, task.question_of[order], task.labels[order])
    expected = AnswerRanking(task).aggregate(scores)
    assert AnswerRanking(shuffled).aggregate(scores[order]) == pytest.approx(expected, abs=1e-12)


def test_a_map_of_the_embeddings_is_applied() -> None:
    task = made_task()
    prepared = task.prepare(embedding)
    assert task.measure(prepared, lambda x: x - x.mean(dim=0)).figures != task.measure(prepared).figures


def test_constant_scores_are_chance() -> None:
    assert made_task().aggregate(np.zeros(24))[0] == 0.5


def test_without_directions_there_is_no_figure() -> None:
    task = made_task()
    with pytest.warns(FlowbertWarning, match="have no direction"):
        measured = task.measure(task.prepare(lambda texts: torch.zeros(len(texts), 3)))
    assert all(math.isnan(figure.value) for figure in measured.figures)
    assert {figure.reason for figure in measured.figures} == {
        "24 of 24 scores are NaN or infinite; allowed: finite numbers"
    }


def test_its_own_corpus_is_all_there_is() -> None:
    task = made_task()
    assert task.corpus("target").sentences == tuple(task.sentences())
    assert not task.labelled()
    with pytest.raises(UserError, match="'train_only': task T has no train split"):
        task.corpus("train_only")


GENERATOR = np.random.default_rng(0)
QUESTION_OF = GENERATOR.permutation(np.repeat(np.arange(15), 5))
LABELS = (GENERATOR.uniform(size=75) < 0.3) & (QUESTION_OF != 4)  # question 4 has no answer
TASK = AnswerRanking(
    AnswerTask("T", tuple(f"q{n}" for n in range(15)), tuple(f"a{n}" for n in range(75)), QUESTION_OF, LABELS)
)
TIED = np.round(LABELS + GENERATOR.normal(size=75), 1)
SHARP = LABELS + GENERATOR.normal(size=75) / 4


def test_replicates_are_the_figures_of_the_repeated_questions() -> None:
    found = TASK.resample({"tied": TIED}, resamples=20, seed=3)
    counts = np.concatenate([block.multiplicities([15]) for block in resampling.blocks("T", 75, 20, 3)])
    for number, drawn in enumerate(counts):
        rows = np.repeat(np.arange(75), drawn[QUESTION_OF])
        area = area_under_curve(TIED[rows], LABELS[rows])
        assert found["auc", "all"].values[0, number] == pytest.approx(area, abs=1e-12)
        each = question_values(TASK.data, TIED)[:, np.repeat(np.arange(15), drawn)]
        for metric, expected in zip(("map", "mrr"), np.nanmean(each, axis=1), strict=True):
            assert found[metric, "all"].values[0, number] == pytest.approx(expected, abs=1e-12)


def test_points_are_the_figures_and_methods_are_paired() -> None:
    found = TASK.resample({"sharp": SHARP, "same": SHARP, "tied": TIED}, resamples=300)
    for (metric, _), value in zip(TASK.measures, TASK.aggregate(SHARP), strict=True):
        assert found[metric, "all"].name == f"T {metric}"
        assert found[metric, "all"].interval("sharp").value == value
        same = found[metric, "all"].difference("sharp", "same")
        assert (same.low, same.high) == (0, 0)
    assert found["auc", "all"].difference("sharp", "tied").excludes_zero


def test_blocks_change_nothing_but_the_draws_and_the_seed_does(monkeypatch: pytest.MonkeyPatch) -> None:
    first, again, other = (
        TASK.resample({"tied": TIED}, resamples=30, seed=seed)["map", "all"].values for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    monkeypatch.setattr(resampling, "_BLOCK_VALUES", 160)  # two resamples at a time
    test_replicates_are_the_figures_of_the_repeated_questions()


def test_resamples_without_an_answer_are_left_out() -> None:
    questions, labels = np.repeat(np.arange(3), 2), np.array([True, False, False, False, False, False])
    task = AnswerRanking(AnswerTask("T", ("p", "q", "r"), tuple("abcdef"), questions, labels))
    found = task.resample({"m": np.array([0.9, 0.1, 0.3, 0.2, 0.4, 0.5])}, resamples=900)
    for measure, replicates in found.items():
        # Without the one question that has an answer, and, for AUC, with nothing that is none: (2 / 3) ** 3.
        assert replicates.interval("m").dropped / 900 == pytest.approx(8 / 27, abs=0.05), measure


@pytest.mark.real
def test_real_answers_run_with_a_bag_of_words(real: Path) -> None:
    with pytest.warns(FlowbertWarning, match=r"answers-test\.csv:12: .*; 6 of 95 such questions are left out"):
        (task,) = AnswerRanking.load(str(real / "data" / "corpora" / "answers-test.csv"), TaskOptions())
    words = {word: place for place, word in enumerate(sorted({w for t in task.sentences() for w in t.split()}))}

    def bag(texts: Sequence[str]) -> torch.Tensor:
        rows = torch.zeros(len(texts), len(words))
        for row, text in enumerate(texts):
            rows[row, [words[word] for word in text.split()]] = 1
        return rows

    assert (len(task.data), int(task.data.labels.sum()), len(task.data.questions)) == (1517, 284, 95)
    measured = task.measure(task.prepare(bag))
    assert np.isfinite(question_values(task.data, measured.items)[0]).sum() == 89
    assert 0.55 < measured.figures[0].value < 0.8


def test_a_file_is_one_task(tmp_path: Path) -> None:
    path = tmp_path / "answers.csv"
    path.write_text("qtext,label,atext\nWho ?,1,Ada .\nWho ?,0,A hat .\n")
    (task,) = AnswerRanking.load(str(path), TaskOptions())
    assert (task.name, task.split, task.item_shape, task.strata) == ("answers", "test", (2,), (1,))
    assert task.key == AnswerRanking(load_answers(path)).key

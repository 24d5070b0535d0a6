"""Every task: scores of constructed vectors, resamples, identities, mistakes."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn.metrics
import torch
from torchmetrics.functional.retrieval import (
    retrieval_average_precision,
    retrieval_reciprocal_rank,
)

from flowbert.arrays import Floats
from flowbert.data.answers import AnswerData
from flowbert.errors import UserError
from flowbert.seeding import Stream
from flowbert.tasks import (
    STS,
    AnswerRanking,
    Pairs,
    Probe,
    Task,
    load_scoring,
    load_task,
    load_tasks,
    spearman,
)
from flowbert.tasks.bootstrap import draw_counts

# A question without any answer is left out of MAP and MRR, with a warning.
pytestmark = pytest.mark.filterwarnings("ignore:.*questions have no answer")

ANSWERS = """question,label,answer
who rides?,1,a man rides
who rides?,0,the sky is blue
who rides?,0,nobody knows
where is it?,0,in the morning
where is it?,1,in the garden
is there none?,0,not this one
"""


def random_vectors(task: Task, dim: int = 16) -> torch.Tensor:
    """Sums of a random vector per word."""
    words = sorted({word for text in task.sentences for word in text.split()})
    vectors = np.random.default_rng(0).normal(size=(len(words), dim))
    row = {word: number for number, word in enumerate(words)}
    sums = [
        vectors[[row[word] for word in text.split()]].sum(axis=0)
        for text in task.sentences
    ]
    return torch.tensor(np.array(sums))


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("answers") / "quiz.csv"
    path.write_text(ANSWERS, encoding="utf-8")
    return path


@pytest.fixture(
    scope="module", params=["SAMPLE", "years", "lexical", "answers", "probe"]
)
def task(request: pytest.FixtureRequest, answers: Path) -> Task:
    names = {
        "SAMPLE": "SAMPLE",
        "lexical": "lexical:SAMPLE",
        "answers": f"answers:{answers}",
        "probe": "probe:SAMPLE",
    }
    if request.param == "years":
        real = request.getfixturevalue("real")
        return load_task("STS13", str(real / "data/senteval"))
    return load_task(names[request.param])


@pytest.fixture(scope="module")
def items(task: Task) -> Floats:
    return task.items(random_vectors(task))


def test_items_and_scores_of_a_task(task: Task) -> None:
    measured = task.measure(random_vectors(task))
    assert measured.items.shape == (task.count,)
    assert set(measured.scores) >= set(task.metrics)
    assert all(math.isfinite(value) for value in measured.scores.values())
    assert measured.reasons == {}
    assert len(set(task.sentences)) == len(task.sentences)


def test_resamples_lie_around_the_scores(task: Task, items: Floats) -> None:
    twice = task.resample({"one": items, "twin": items.copy()}, resamples=200)
    scores = task.score(items)
    for metric in task.metrics:
        one, twin = twice[metric]
        assert np.array_equal(one, twin, equal_nan=True)
        finite = one[np.isfinite(one)]
        assert finite.min() <= scores[metric] <= finite.max()


def test_resamples_are_scores_with_weights(task: Task, items: Floats) -> None:
    weights = draw_counts(task.strata, 5, Stream(0, "test"))
    weights[0] = 1
    rounded = np.round(items, 1)  # many equal ones
    found = task.scorer([items, rounded])(weights)
    assert found.shape == (len(task.metrics), 2, 5)
    for method, row in enumerate((items, rounded)):
        for resample, drawn in enumerate(weights):
            expected = list(task.score(row, drawn).values())
            # Both round at most ten times.
            assert found[:, method, resample] == pytest.approx(expected, rel=2e-15)
        once, plain = task.score(row, weights[0]), task.score(row)
        assert once == plain
        assert list(plain) == list(task.metrics)


def test_a_task_scores_again_from_what_results_keep(task: Task, items: Floats) -> None:
    state = task.state()
    arrays = {k: v for k, v in state.items() if isinstance(v, np.ndarray)}
    plain = json.dumps({k: v for k, v in state.items() if k not in arrays})
    again = load_scoring(json.loads(plain) | arrays)
    assert type(again) is type(task)
    assert again.score(items) == task.score(items)
    own, other = (each.resample({"one": items}, 70) for each in (task, again))
    assert own.keys() == other.keys() == set(task.metrics)
    assert all(np.array_equal(own[name], other[name], equal_nan=True) for name in own)
    assert (again.headline, again.averaged) == (task.headline, task.averaged)
    assert (again.name, again.split, again.digest) == (
        task.name,
        task.split,
        task.digest,
    )


@pytest.mark.parametrize("change", [{"kind": "ranking"}, {"gold": None}, {"more": 1}])
def test_what_no_task_has_written_is_refused(change: dict[str, Any]) -> None:
    state = load_task("SAMPLE").state() | change
    if None in change.values():
        del state["gold"]
    with pytest.raises(UserError, match="task: received"):
        load_scoring(state)


def test_undefined_scores_say_why(task: Task) -> None:
    vectors = random_vectors(task)
    undefined = task.measure(vectors, "too few sentences")
    invalid = task.measure(torch.full_like(vectors, math.nan))
    for measured in (undefined, invalid):
        assert all(math.isnan(value) for value in measured.scores.values())
        assert set(measured.reasons) == set(measured.scores)
        assert all(measured.reasons.values())
    assert set(undefined.reasons.values()) == {"too few sentences"}


def test_digests_tell_tasks_apart(task: Task, answers: Path) -> None:
    others = [load_task(name) for name in ("SAMPLE", "lexical-characters:SAMPLE")]
    others += load_tasks(f"SAMPLE,probe:SAMPLE,answers:{answers}", positive_above=0.6)
    same = [other for other in others if other.digest == task.digest]
    assert len(same) <= 1
    assert len({other.digest for other in others}) == len(others)


@pytest.mark.parametrize("scale", [1, 5, 100])
def test_positives_are_a_share_of_the_score_range(scale: int) -> None:
    whole = load_task("SAMPLE")
    assert isinstance(whole, STS)
    first, second = whole.pairs()
    own = Pairs(first, second, whole.gold / 5 * scale, score_range=(0, scale))
    (scaled,) = load_tasks([own])
    vectors = random_vectors(whole)
    expected = whole.measure(vectors).scores
    assert scaled.measure(vectors).scores == expected
    positive = whole.gold > 4
    unit = torch.nn.functional.normalize(vectors, dim=1)
    differences = unit[whole.left[positive]] - unit[whole.right[positive]]
    by_hand = float(differences.square().sum(dim=1).mean())
    assert expected["alignment", "all"] == pytest.approx(by_hand)
    (few,) = load_tasks([own], positive_above=0.999)
    assert few.digest != scaled.digest


def test_an_alignment_without_positives_has_a_reason() -> None:
    pairs = Pairs(["a b", "c d"], ["a c", "e f"], [1, 2], score_range=(0, 5))
    (task,) = load_tasks([pairs])
    measured = task.measure(random_vectors(task))
    ((metric, reason),) = measured.reasons.items()
    assert metric == ("alignment", "all")
    assert reason.startswith(
        "no pair has a score above 4, the limit that positive_above"
    )
    assert math.isnan(measured.scores["alignment", "all"])


def test_sts_scores_are_the_correlations_of_cosines() -> None:
    task = load_task("SAMPLE")
    assert isinstance(task, STS)
    vectors = random_vectors(task)
    unit = torch.nn.functional.normalize(vectors, dim=1)
    cosine = (unit[task.left] * unit[task.right]).sum(dim=1).numpy()
    scores = task.measure(vectors).scores
    # Rounding cosines to ten decimals may tie or swap neighbours in rank.
    assert scores["spearman", "all"] == pytest.approx(
        spearman(cosine, task.gold), abs=1e-6
    )
    assert scores["spearman", "all"] == scores["spearman", "mean"]


def test_aggregations_over_subsets(real: Path) -> None:
    task = load_task("STS13", str(real / "data/senteval"))
    assert isinstance(task, STS)
    vectors = random_vectors(task)
    scores = task.measure(vectors).scores
    sizes = task.strata
    by_subset = [scores["spearman", name] for name in task.subset_names]
    assert scores["spearman", "mean"] == pytest.approx(np.mean(by_subset), abs=1e-14)
    wmean = np.dot(sizes, by_subset) / sum(sizes)
    assert scores["spearman", "wmean"] == pytest.approx(wmean, abs=1e-14)
    assert task.strata == (189, 750, 561)


def test_answers_equal_sklearn_and_hand_counted_ranks(answers: Path) -> None:
    task = load_task(f"answers:{answers}")
    assert isinstance(task, AnswerRanking)
    items = np.array([0.5, 0.9, 0.1, 0.2, 0.7, 0.95])
    scores = task.score(items)
    expected = sklearn.metrics.roc_auc_score(task.is_answer, items)
    assert scores["auc", "all"] == pytest.approx(expected)
    # First question: the answer is second of three; second question: first of two.
    assert scores["mrr", "all"] == pytest.approx((1 / 2 + 1) / 2)
    assert scores["map", "all"] == pytest.approx((1 / 2 + 1) / 2)


@pytest.mark.parametrize("seed", range(5))
def test_answers_equal_torchmetrics_and_sklearn_question_by_question(seed: int) -> None:
    rng = np.random.default_rng(seed)
    question_of, is_answer = rng.integers(0, 12, 80), rng.random(80) < 0.3
    questions = tuple(f"question {index}" for index in range(12))
    texts = tuple(f"answer {index}" for index in range(80))
    task = AnswerRanking(AnswerData("drawn", questions, texts, question_of, is_answer))
    # Few values, so that right and wrong answers have the same one.
    items = rng.integers(-3, 3, 80) / 2
    weights = rng.integers(0, 3, 12)
    precision, reciprocal, kept = [], [], []
    for question in np.unique(question_of[is_answer]):
        rows = question_of == question
        labels = is_answer[rows]
        # It takes an answer whose score is not above 0 for a wrong one: it gets ranks, of right
        # answers behind wrong ones with the same cosine.
        ranked = torch.from_numpy(labels[np.lexsort((~labels, items[rows]))])
        ranks = torch.arange(1.0, len(ranked) + 1)
        precision.append(retrieval_average_precision(ranks, ranked))
        reciprocal.append(retrieval_reciprocal_rank(ranks, ranked))
        kept.append(weights[question])
    pairs = weights[question_of]
    area = sklearn.metrics.roc_auc_score(is_answer, items, sample_weight=pairs)
    scores = task.score(items, weights)
    assert scores["auc", "all"] == pytest.approx(area, abs=1e-14)
    # torchmetrics computes in float32: 2^-24 for each operation on values up to 1.
    for name, values in (("map", precision), ("mrr", reciprocal)):
        expected = np.average(values, weights=kept)
        assert scores[name, "all"] == pytest.approx(expected, abs=5e-7)
    assert task.score(items + 10, weights) == scores


def test_equal_scores_count_by_half_in_the_resampled_area(answers: Path) -> None:
    task = load_task(f"answers:{answers}")
    items = np.zeros(task.count)
    counts = np.array([[2, 1, 0], [1, 1, 1]], dtype=np.int32)
    assert task.scorer([items])(counts)[0, 0] == pytest.approx(0.5)


def test_the_probe_reads_labels_that_are_in_the_vectors() -> None:
    task = load_task("probe:SAMPLE")
    assert isinstance(task, Probe)
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(len(task.sentences), 4))
    row = {text: number for number, text in enumerate(task.sentences)}
    for split in task.data.splits.values():
        for premise, hypothesis, label in zip(
            split.premises, split.hypotheses, split.labels, strict=True
        ):
            vectors[row[hypothesis]] = vectors[row[premise]] + {"entailment": 0}.get(
                label, 3
            )
    accuracy = task.score(task.items(torch.tensor(vectors)))["accuracy", "all"]
    assert accuracy > task.references["majority"].mean() + 0.1


def test_the_probe_ignores_dimensions_that_hold_rounding_alone() -> None:
    task = load_task("probe:SAMPLE")
    vectors = random_vectors(task, dim=6)
    noise = torch.randn(len(vectors), 3, generator=torch.Generator().manual_seed(0))
    constant = torch.full((len(vectors), 3), 0.3, dtype=torch.float64)
    plain = task.items(torch.cat([vectors, constant], dim=1))
    rounded = task.items(torch.cat([vectors, constant + 1e-8 * noise], dim=1))
    assert np.array_equal(plain, rounded)


def test_corpora_and_labels_of_a_task() -> None:
    task = load_task("SAMPLE")
    target, train = task.corpus("target"), task.corpus("train_only")
    assert len(target) == 2 * (3000 + 750 + 1000)
    assert train.sentences == target.sentences[: len(train)]
    assert sum(map(len, task.labels())) == 3000
    assert load_task("SAMPLE", split="train").labels() == ()


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ({"tasks": "STSX"}, ["STSX"]),
        ({"tasks": ""}, ["tasks"]),
        ({"tasks": "SAMPLE,SAMPLE:x"}, ["SAMPLE:x"]),
        ({"tasks": "SAMPLE", "split": "held_out"}, ["held_out", "dev"]),
        ({"tasks": "STSB"}, ["STSB", "senteval"]),
        ({"tasks": "probe:STSB"}, ["STSB"]),
        ({"tasks": "answers:missing.csv"}, ["missing.csv"]),
        ({"tasks": "STSB", "senteval": "/nowhere"}, ["/nowhere"]),
    ],
)
def test_mistakes_are_named(arguments: dict[str, Any], names: list[str]) -> None:
    with pytest.raises(UserError) as caught:
        load_tasks(**arguments)
    assert all(name in str(caught.value) for name in names)


def test_only_target_and_train_only_are_corpora_of_a_task(answers: Path) -> None:
    task = load_task(f"answers:{answers}")
    with pytest.raises(UserError, match="train_only"):
        task.corpus("train_only")

"""Every task: scores of constructed vectors, resamples, identities, mistakes."""

import json
import math

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics
import torch

from flowbert.data.nli import NLIData
from flowbert.extras.tasks.answers import AnswerData, AnswerRanking
from flowbert.extras.tasks.probe import EntailmentData, Probe, load_entailment
from flowbert.seeding import Stream
from flowbert.tasks import (
    STS,
    Pairs,
    Task,
    load_scoring,
    load_task,
    load_tasks,
)
from flowbert.tasks.measures import draw_counts
from flowbert.tasks.sts import SimilarityTask
from helpers import refused

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


def random_vectors(task, dim=16):
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
def answers(tmp_path_factory):
    path = tmp_path_factory.mktemp("answers") / "quiz.csv"
    path.write_text(ANSWERS)
    return path


def small_probe():
    """The first tenth of the sample's labelled pairs."""
    splits = {
        split: NLIData(*(side[: len(data) // 10] for side in vars(data).values()))
        for split, data in load_entailment("SAMPLE").splits.items()
    }
    return Probe(EntailmentData("SAMPLE", splits))


KINDS = ("SAMPLE", "years", "lexical:SAMPLE", "answers", "probe")


@pytest.fixture(scope="module", params=KINDS)
def task(request, answers):
    if request.param == "years":
        real = request.getfixturevalue("real")
        return load_task("STS13", str(real / "data/senteval"))
    if request.param == "probe":
        return small_probe()
    return load_task(request.param.replace("answers", f"answers:{answers}"))


@pytest.fixture(scope="module")
def items(task):
    return task.items(random_vectors(task))


def test_scores_of_a_task_and_reasons_where_there_are_none(task):
    vectors = random_vectors(task)
    measured = task.measure(vectors)
    assert measured.items.shape == (task.count,)
    assert set(measured.scores) >= set(task.metrics)
    assert all(math.isfinite(value) for value in measured.scores.values())
    assert measured.reasons == {}
    assert len(set(task.sentences)) == len(task.sentences)
    undefined = task.measure(vectors, "too few sentences")
    assert set(undefined.reasons.values()) == {"too few sentences"}
    for nothing in (undefined, task.measure(torch.full_like(vectors, math.nan))):
        assert all(math.isnan(value) for value in nothing.scores.values())
        assert set(nothing.reasons) == set(nothing.scores)
        assert all(nothing.reasons.values())


def test_digests_tell_tasks_apart(answers):
    names = [name for name in KINDS if ":" in name] + [f"answers:{answers}"]
    names += ["SAMPLE", "lexical-characters:SAMPLE", "probe:SAMPLE"]
    tasks = [*load_tasks(names), *load_tasks("SAMPLE", positive_above=0.6)]
    assert len({task.digest for task in tasks}) == len(tasks)
    assert load_task("SAMPLE").digest in [task.digest for task in tasks]


def test_resamples_are_scores_of_what_was_drawn(task, items):
    """Those of all units, and those of whole questions or premises."""
    counts = draw_counts(task.strata, 5, Stream(0, "test"))
    counts[0] = 1
    rounded = np.round(items, 1)  # many equal ones
    found = task.scorer([items, rounded])(counts)
    assert found.shape == (len(task.metrics), 2, 5)
    scores = [task.score(row) for row in (items, rounded)]
    assert [list(each) for each in scores] == 2 * [list(task.metrics)]
    # Both round at most ten times.
    values = np.array([list(each.values()) for each in scores])
    np.testing.assert_allclose(found[..., 0].T, values, rtol=2e-15)
    if isinstance(task, SimilarityTask):  # a further metric is no second Spearman
        whole = [x for (_, way), x in scores[0].items() if way == "all"]
        assert len(set(whole)) == len(whole)
    if task.strata == (task.count,):  # units are items
        drawn = Task.scorer(task, [items, rounded])(counts)
        np.testing.assert_allclose(found, drawn, rtol=2e-15)


def test_a_task_scores_again_from_what_results_keep(task, items):
    state = task.state()
    arrays = {k: v for k, v in state.items() if isinstance(v, np.ndarray)}
    plain = json.dumps({k: v for k, v in state.items() if k not in arrays})
    again = load_scoring(json.loads(plain) | arrays)
    assert type(again) is type(task)
    assert again.digest == task.digest
    assert again.score(items) == task.score(items)
    methods = {"one": items, "twin": items.copy()}
    before, after = (each.resample(methods, 70) for each in (task, again))
    assert before.keys() == after.keys() == set(task.metrics)
    for metric, (one, twin) in before.items():
        np.testing.assert_array_equal(one, twin)
        np.testing.assert_array_equal(after[metric], [one, twin])


def test_scores_of_an_sts_task_and_of_another_scale():
    task = load_task("SAMPLE")
    assert isinstance(task, STS)
    vectors = random_vectors(task)
    scores = task.measure(vectors).scores
    unit = torch.nn.functional.normalize(vectors, dim=1)
    left, right = unit[task.left], unit[task.right]
    cosines = (left * right).sum(dim=1)
    expected = scipy.stats.spearmanr(cosines, task.gold).statistic
    assert scores["spearman", "all"] == scores["spearman", "mean"]
    # Cosines that are equal but for rounding, of equal pairs of words, are ties in one of them.
    assert scores["spearman", "all"] == pytest.approx(expected, abs=1e-6)
    distances = (left - right).square().sum(dim=1)[task.gold > 4]
    assert scores["alignment", "all"] == pytest.approx(float(distances.mean()))
    pairs = Pairs(*task.pairs(), 20 * task.gold, score_range=(0, 100))
    (scaled,) = load_tasks([pairs])
    assert scaled.measure(vectors).scores == scores
    (low,) = load_tasks([Pairs(*task.pairs(), task.gold, score_range=(0, 100))])
    assert low.digest != scaled.digest
    ((metric, reason),) = low.measure(vectors).reasons.items()
    assert metric == ("alignment", "all")
    assert reason.startswith("no pair has a score above 80, the limit that positive")


def test_sentences_as_the_evaluation_of_prompteol_prepares_them(tmp_path):
    file = tmp_path / "pairs.tsv"
    rows = ['He said "no".\tWho runs?\t1', "e.g.\tA dog..\t2", "a 'b'\tDogs!\t3"]
    file.write_text("\n".join(["sentence1\tsentence2\tscore", *rows]))
    (task,) = load_tasks(f"prompteol:{file}")
    assert task.pairs() == (
        ("He said 'no'", "e.g", "a 'b'"),
        ("Who runs", "A dog.", "Dogs!"),
    )
    assert task.name == "prompteol:pairs"


def test_aggregations_over_subsets(real):
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


@pytest.mark.parametrize("seed", range(2))
def test_answers_equal_sklearn_and_formulas_question_by_question(seed):
    rng = np.random.default_rng(seed)
    question_of, is_answer = rng.integers(0, 12, 80), rng.random(80) < 0.3
    questions = tuple(f"question {index}" for index in range(12))
    texts = tuple(f"answer {index}" for index in range(80))
    task = AnswerRanking(AnswerData("drawn", questions, texts, question_of, is_answer))
    # Few values, so that right and wrong answers have the same one.
    items = rng.integers(-3, 3, 80) / 2
    weights = rng.integers(0, 3, 12, dtype=np.int32)
    precision, reciprocal, kept = [], [], []
    for question in np.unique(question_of[is_answer]):
        rows = question_of == question
        labels = is_answer[rows]
        # Wrong answers stand before right ones with the same cosine.
        ranks = np.flatnonzero(labels[np.lexsort((labels, -items[rows]))]) + 1
        precision.append(np.mean(np.arange(1, len(ranks) + 1) / ranks))
        reciprocal.append(1 / ranks[0])
        kept.append(weights[question])
    pairs = weights[question_of]
    area = sklearn.metrics.roc_auc_score(is_answer, items, sample_weight=pairs)
    (scores,) = task.scorer([items])(weights[None])[:, 0].T
    assert scores[0] == pytest.approx(area, abs=1e-14)
    expected = [np.average(values, weights=kept) for values in (precision, reciprocal)]
    np.testing.assert_allclose(scores[1:], expected, atol=1e-14)
    assert task.score(items + 10) == task.score(items)


def test_the_probe_reads_labels_that_are_in_the_vectors():
    task = small_probe()
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(len(task.sentences), 4))
    row = {text: number for number, text in enumerate(task.sentences)}
    for split in task.data.splits.values():
        for premise, hypothesis, label in zip(*vars(split).values(), strict=True):
            shift = 0 if label == "entailment" else 3
            vectors[row[hypothesis]] = vectors[row[premise]] + shift
    accuracy = task.score(task.items(torch.tensor(vectors)))["accuracy", "all"]
    assert accuracy > task.references["majority"].mean() + 0.1


def test_the_probe_ignores_dimensions_that_hold_rounding_alone():
    task = small_probe()
    vectors = random_vectors(task, dim=6)
    noise = torch.randn(len(vectors), 3)
    constant = torch.full((len(vectors), 3), 0.3, dtype=torch.float64)
    plain = task.items(torch.cat([vectors, constant], dim=1))
    rounded = task.items(torch.cat([vectors, constant + 1e-8 * noise], dim=1))
    assert np.array_equal(plain, rounded)


def test_corpora_and_labels_of_a_task(answers):
    task = load_task("SAMPLE")
    target, train = task.corpus("target"), task.corpus("train_only")
    assert len(target) == 2 * (3000 + 750 + 1000)
    assert train.sentences == target.sentences[: len(train)]
    assert sum(map(len, task.labels())) == 3000
    assert load_task("SAMPLE", split="train").labels() == ()
    refused("train_only", load_task(f"answers:{answers}").corpus, "train_only")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tasks": ""}, "tasks"),
        ({"tasks": "SAMPLE,SAMPLE:x"}, "SAMPLE:x"),
        ({"tasks": "SAMPLE", "split": "held_out"}, "held_out.*dev"),
        ({"tasks": "probe:STSB"}, "STSB"),
        ({"tasks": "answers:missing.csv"}, r"missing\.csv"),
    ],
)
def test_mistakes_are_named(options, message):
    refused(message, load_tasks, **options)


def test_a_state_of_an_unknown_kind():
    state = load_task("SAMPLE").state() | {"kind": "ranking"}
    refused("task: received", load_scoring, state)

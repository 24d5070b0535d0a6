"""Pairs with little word overlap: which ones are taken, and what is fitted on and shown."""

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from examples.low_overlap import (
    HighOverlap,
    LowOverlap,
    first_of_bins,
    tfidf_cosine,
    words,
)
from flowbert.data.sts import load_sts
from flowbert.tasks import load_task, load_tasks
from helpers import refused


@pytest.fixture(scope="module")
def data():
    return load_sts("SAMPLE")


def gold_distance(first, second):
    """Largest difference of two distributions (Kolmogorov and Smirnov)."""
    scores = np.unique([*first, *second])
    shares = [
        np.searchsorted(np.sort(each), scores, side="right") / len(each)
        for each in (first, second)
    ]
    return float(np.abs(shares[0] - shares[1]).max())


@pytest.mark.parametrize("kind", [LowOverlap, HighOverlap])
@pytest.mark.parametrize("share", [0.05, 0.1, 0.3])
def test_gold_scores_are_distributed_as_those_of_all_pairs(kind, share, data):
    whole, task = load_task("SAMPLE"), kind(data, share=share)
    assert task.count == round(share * whole.count)
    (subset,) = data.split("test")
    # A bin of pairs, and half a pair that is rounded off.
    widest = np.unique(subset.scores, return_counts=True)[1].min() + 1 / share
    bound = widest / len(subset) + 0.5 / task.count
    assert gold_distance(task.gold, subset.scores) <= bound


def test_maps_are_fitted_on_all_sentences_of_the_task(data):
    whole, low = load_tasks("SAMPLE,low-overlap:SAMPLE")
    assert isinstance(low, LowOverlap)
    for name in ("target", "train_only"):
        assert low.corpus(name).digest == whole.corpus(name).digest
    assert len(low.labels()[0]) == len(data.split("train")[0])
    assert set(low.sentences) < set(whole.sentences)
    assert low.name == "low-overlap:SAMPLE"
    assert low.settings()["level"] == 0.25


def test_bins_have_a_pair_to_give():
    gold = np.repeat([0.0, 1.0, 2.0, 3.0], [10, 3, 7, 5])
    order = np.arange(len(gold))[::-1]
    # Bins 0; 1 and 2; 3 is too small, and joins them. The first has 1 of 10, the other 2 of 15.
    assert first_of_bins(order, gold, 0.1).tolist() == [9, 24, 23]


def test_tfidf_is_that_of_scikit_learn():
    first = ["A man rides a horse.", "It rains.", "Nobody knows."]
    second = ["A man is riding.", "The sun shines.", "Nobody knows!"]
    matrix = TfidfVectorizer(token_pattern=r"\w+").fit_transform([*first, *second])
    expected = (matrix[:3] @ matrix[3:].T).diagonal()
    found = tfidf_cosine(first, second, [*first, *second])
    np.testing.assert_allclose(found, expected, atol=1e-10)
    assert found[2] == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Don't STOP_it, 2 dogs!", ["don", "t", "stop_it", "2", "dogs"]),
        ("我喜欢iPhone 手机", ["我", "喜", "欢", "iphone", "手", "机"]),
        ("आदमी喜欢", ["आदमी", "喜", "欢"]),
        ("?!", ["?!"]),
    ],
)
def test_words(text, expected):
    assert words(text) == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"share": 1}, "share: received 1; expected a number above 0 and below 1"),
        ({"share": "a"}, "share: received 'a'"),
        ({"level": -0.1}, "level: received -0.1; expected a number from 0 to 1"),
        ({"share": 0.001}, "SAMPLE has 1000 pairs; expected two or more different"),
    ],
)
def test_mistakes(options, message, data):
    refused(message, LowOverlap, data, **options)

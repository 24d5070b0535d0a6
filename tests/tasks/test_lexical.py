"""Edit distance, its Spearman with similarities and gold, and their resamples over all pairs of a split."""

import math
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import spearmanr

from flowbert.data.sts import STSTask, Subset, load_task
from flowbert.errors import UserError
from flowbert.tasks import STS, Lexical, resampling

SIZES = (40, 15, 25)
MEASURE = ("edit_distance_words", "all")
GENERATOR = np.random.default_rng(0)
GOLD = np.round(GENERATOR.uniform(0, 5, 80))
RAW = GOLD + GENERATOR.normal(size=80)
TIED = np.round(GOLD + 2 * GENERATOR.normal(size=80))
# Subsets of unlike lengths of sentences: over all pairs the figure is another one than within the subsets.
EDITS = GENERATOR.integers(0, 6, 80) + np.repeat((0, 9, 20), SIZES)
METHODS = {"raw": RAW, "tied": TIED, "twin": RAW}


def data(gold: NDArray[np.float64], edits: NDArray[np.int64], sizes: tuple[int, ...]) -> STSTask:
    """Pairs that are this many words apart."""
    edges = np.cumsum(sizes)[:-1]
    subsets = []
    for number, (scores, words) in enumerate(zip(np.split(gold, edges), np.split(edits, edges), strict=True)):
        first = tuple(f"{number} {row}" for row in range(len(scores)))
        second = tuple(text + " x" * count for text, count in zip(first, words.tolist(), strict=True))
        subsets.append(Subset(f"s{number}", first, second, scores))
    return STSTask("T", {"test": subsets})


TASK = Lexical(data(GOLD, EDITS, SIZES))


def test_distances_in_words_and_characters() -> None:
    first, second = ("A big dog runs .", "", "kitten"), ("A dog runs .", "", "sitting")
    pairs = STSTask("T", {"test": [Subset("T", first, second, np.arange(3.0))]})
    assert Lexical(pairs).distances.tolist() == [1, 0, 1]
    assert Lexical(pairs, "test", "characters").distances.tolist() == [4, 0, 3]
    np.testing.assert_array_equal(TASK.distances, EDITS)


def test_figures_equal_scipy_for_methods_and_gold() -> None:
    for items in (RAW, TASK.references["gold"]):
        (figure,) = TASK.measure_items(items).figures
        assert (figure.metric, figure.aggregation) == MEASURE
        assert figure.value == pytest.approx(spearmanr(items, EDITS).statistic, abs=1e-9)
    np.testing.assert_array_equal(TASK.references["gold"], GOLD)


def test_what_does_not_exist_says_why() -> None:
    (figure,) = TASK.measure_items(np.ones(80)).figures
    assert math.isnan(figure.value)
    assert figure.reason == "all 80 predictions are 1"
    embeddings = TASK.prepare(lambda texts: np.ones((len(texts), 2)))
    (flawed,) = TASK.measure(embeddings, None, "too few").figures
    assert flawed.reason == "too few"


def test_every_resample_equals_scipy_over_all_pairs() -> None:
    found = TASK.resample(METHODS, resamples=30, seed=3)[MEASURE]
    assert (found.name, found.methods) == ("T edit_distance_words", ("gold", "raw", "tied", "twin"))
    counts = np.concatenate([b.multiplicities(SIZES) for b in resampling.blocks("T", 80, 30, 3)])
    for number, drawn in enumerate(counts):
        rows = np.repeat(np.arange(80), drawn)
        assert [len(part) for part in np.split(rows, np.searchsorted(rows, (40, 55)))] == list(SIZES)
        expected = [spearmanr(each[rows], EDITS[rows]).statistic for each in (GOLD, *METHODS.values())]
        np.testing.assert_allclose(found.values[:, number], expected, atol=1e-9)
    same = found.difference("raw", "twin")
    assert (same.value, same.low, same.high) == (0, 0, 0)
    assert found.interval("raw").value == TASK.measure_items(RAW).figures[0].value


def test_resamples_are_those_of_the_figures_with_gold() -> None:
    """With the gold score as the distance, the figure is Spearman with gold on the same resamples."""
    pairs = data(GOLD, GOLD.astype(np.int64), SIZES)
    lexical = Lexical(pairs).resample(METHODS, resamples=40, seed=5)[MEASURE]
    plain = STS(pairs).resample(METHODS, resamples=40, seed=5)["spearman", "all"]
    np.testing.assert_array_equal(lexical.values[1:], plain.values)
    np.testing.assert_allclose(lexical.values[0], 1, atol=1e-12)


def test_coverage_of_a_known_difference() -> None:
    """Distance and similarities are jointly normal, so Spearman's rho is 6 / pi asin(r / 2) in the population."""
    strengths = (-0.7, -0.5)
    truth = [6 / math.pi * math.asin(r / 2) for r in strengths]
    generator = np.random.default_rng(4)
    covered = 0
    for number in range(400):
        distances = generator.normal(size=200)
        noise = generator.normal(size=(2, 200))
        wordy, free = (r * distances + math.sqrt(1 - r * r) * e for r, e in zip(strengths, noise, strict=True))
        task = Lexical(data(np.zeros(200), np.zeros(200, dtype=np.int64), (200,)))
        vars(task)["distances"] = distances
        found = task.resample({"wordy": wordy, "free": free}, resamples=400, seed=number)[MEASURE]
        interval = found.difference("wordy", "free")
        covered += interval.low <= truth[0] - truth[1] <= interval.high
    assert 0.92 <= covered / 400 <= 0.98


def test_an_unknown_unit_is_named() -> None:
    with pytest.raises(
        UserError, match=r"unit: received 'word'; allowed: words, characters \(did you mean 'words'\?\)"
    ):
        Lexical(TASK.data, "test", "word")


@pytest.mark.real
def test_gold_against_edit_distance_on_stsb(real: Path) -> None:
    """li2020 report -24.61 without unit or split; edited words on the development split come nearest."""
    pairs = load_task("STSB", real / "data" / "senteval")
    expected = {("dev", "words"): -24.55, ("dev", "characters"): -20.27, ("test", "words"): -15.68}
    for (split, unit), figure in expected.items():
        task = Lexical(pairs, split, unit)
        assert 100 * task.measure_items(task.references["gold"]).figures[0].value == pytest.approx(figure, abs=0.006)

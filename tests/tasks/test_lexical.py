"""Edit distance against the textbook's dynamic programme, and the Spearman figures that use it."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from flowbert.data.sts import load_task, sentence_pairs
from flowbert.errors import UserError
from flowbert.tasks.lexical import edit_distances, levenshtein, lexical_figures
from flowbert.tasks.pairs import ScoredPairs

letters = st.text(alphabet="abcé ", max_size=80)


def textbook(first: Sequence[str], second: Sequence[str]) -> int:
    row = list(range(len(second) + 1))
    for i, a in enumerate(first, start=1):
        above, row = row, [i]
        for j, b in enumerate(second, start=1):
            row.append(min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (a != b)))
    return row[-1]


@given(letters, letters)
def test_levenshtein_is_the_textbook_distance(first: str, second: str) -> None:
    assert levenshtein(first, second) == textbook(first, second)
    assert levenshtein(first.split(), second.split()) == textbook(first.split(), second.split())


@given(letters, letters, letters)
def test_levenshtein_is_a_metric(a: str, b: str, c: str) -> None:
    assert levenshtein(a, b) == levenshtein(b, a)
    assert (levenshtein(a, b) == 0) == (a == b)
    assert levenshtein(a, c) <= levenshtein(a, b) + levenshtein(b, c)
    assert abs(len(a) - len(b)) <= levenshtein(a, b) <= max(len(a), len(b))


def test_units_and_normalization() -> None:
    first, second = ["A big dog runs .", ""], ["A dog runs .", ""]
    assert edit_distances(first, second).tolist() == [1, 0]
    assert edit_distances(first, second, unit="characters").tolist() == [4, 0]
    assert edit_distances(first, second, normalized=True).tolist() == [0.2, 0]
    assert edit_distances(first, second, unit="characters", normalized=True).tolist() == [4 / 16, 0]


def test_figures_equal_scipy() -> None:
    generator = np.random.default_rng(0)
    gold = tuple(np.round(generator.uniform(0, 5, size)) for size in (20, 30))
    raw = tuple(scores + generator.normal(size=len(scores)) for scores in gold)
    distances = np.round(generator.uniform(0, 9, 50))
    pairs = ScoredPairs("T", "test", ("a", "b"), gold, {"raw": raw})
    of_gold, of_raw = lexical_figures(pairs, distances)
    assert (of_gold.method, of_gold.with_gold, of_raw.method) == ("gold", 1.0, "raw")
    assert of_gold.with_edit_distance == pytest.approx(spearmanr(np.concatenate(gold), distances).statistic, abs=1e-9)
    assert of_raw.with_edit_distance == pytest.approx(spearmanr(np.concatenate(raw), distances).statistic, abs=1e-9)
    assert of_raw.with_gold == pytest.approx(spearmanr(np.concatenate(raw), np.concatenate(gold)).statistic, abs=1e-9)


def test_bad_arguments() -> None:
    with pytest.raises(UserError, match=r"unit is 'word'; allowed: words, characters \(did you mean 'words'\?\)"):
        edit_distances(["a"], ["b"], unit="word")
    with pytest.raises(UserError, match="1 first and 2 second sentences; allowed: equal numbers"):
        edit_distances(["a"], ["b", "c"])
    pairs = ScoredPairs("T", "test", ("T",), (np.arange(3.0),), {})
    with pytest.raises(UserError, match=r"distances have the shape \(2,\); allowed: \(3,\)"):
        lexical_figures(pairs, np.arange(2.0))


@pytest.mark.real
def test_gold_against_edit_distance_on_stsb(real: Path) -> None:
    """li2020 report -24.61 without unit or split; edited words on the development split come nearest."""
    task = load_task("STSB", real / "data" / "senteval")
    expected = {("dev", "words"): -24.55, ("dev", "characters"): -20.27, ("test", "words"): -15.68}
    for (split, unit), figure in expected.items():
        first, second = sentence_pairs(task.split(split))
        gold = tuple(subset.scores for subset in task.split(split))
        pairs = ScoredPairs("STSB", split, ("STSB",), gold, {})
        found = lexical_figures(pairs, edit_distances(first, second, unit=unit))[0]
        assert 100 * found.with_edit_distance == pytest.approx(figure, abs=0.006)

"""Similarities of several methods on the same pairs."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from flowbert.data.sts import STSTask, Subset, sentence_pairs
from flowbert.errors import UserError
from flowbert.evaluation import embed_pairs, evaluate_pairs
from flowbert.tasks.bootstrap import bootstrap
from flowbert.tasks.pairs import ScoredPairs, score_pairs


def made_task() -> STSTask:
    sides = [tuple(f"{side}{number}" for number in range(12)) for side in "ab"]
    scores = np.arange(12.0) % 5
    return STSTask("T", {"test": [Subset(n, sides[0][s], sides[1][s], scores[s]) for n, s in PARTS]})


PARTS = (("one", slice(0, 5)), ("two", slice(5, 12)))


def test_scores_of_each_method_are_those_of_the_protocol() -> None:
    task = made_task()
    table = torch.randn(24, 4, generator=torch.Generator().manual_seed(0))
    pairs = embed_pairs(task, "test", lambda sentences: table[: len(sentences)])
    found = score_pairs(pairs, {"raw": None, "shifted": lambda x: x + 1})
    assert (found.task, found.split, found.subsets, len(found)) == ("T", "test", ("one", "two"), 12)
    np.testing.assert_array_equal(found.concatenated(), np.arange(12.0) % 5)
    result = bootstrap(found, resamples=3)
    for name, transform in (("raw", None), ("shifted", lambda x: x + 1)):
        figures = evaluate_pairs(pairs, transform, positive_above=3)
        for aggregation in ("all", "mean", "wmean"):
            assert result.interval(name, aggregation).value == figures.spearman(aggregation)


def test_sentences_come_in_the_order_of_the_concatenated_pairs() -> None:
    first, second = sentence_pairs(made_task().split("test"))
    assert first == tuple(f"a{number}" for number in range(12))
    assert second == tuple(f"b{number}" for number in range(12))


def test_sizes_must_agree() -> None:
    gold = (np.arange(3.0), np.arange(2.0))
    with pytest.raises(UserError, match=r"T: method 'raw' has \[3\] similarities by subset; needed: \[3, 2\]"):
        ScoredPairs("T", "test", ("a", "b"), gold, {"raw": gold[:1]})
    with pytest.raises(UserError, match="T: 1 subsets, 2 of scores; allowed: equal, >= 1"):
        ScoredPairs("T", "test", ("a",), gold, {})


def scored(**methods: float) -> ScoredPairs:
    gold = (np.array([1.0, 2.0]), np.array([0.1 + 0.2]))
    return ScoredPairs("T", "dev", ("a", "b"), gold, {name: tuple(g * x for g in gold) for name, x in methods.items()})


def test_saved_and_loaded_exactly(tmp_path: Path) -> None:
    pairs = scored(raw=0.1, **{"whitening:shrinkage=0.1": 1 / 3})
    loaded = ScoredPairs.load(pairs.save(tmp_path / "pairs.safetensors"))
    assert (loaded.task, loaded.split, loaded.subsets) == (pairs.task, pairs.split, pairs.subsets)
    assert list(loaded.predicted) == list(pairs.predicted)
    for name in (None, *pairs.predicted):
        np.testing.assert_array_equal(loaded.concatenated(name), pairs.concatenated(name))
    assert [len(scores) for scores in loaded.gold] == [2, 1]


def test_bad_files(tmp_path: Path) -> None:
    path = tmp_path / "pairs.safetensors"
    with pytest.raises(UserError, match=f"^{re.escape(str(path))}: no such file; needed: a saved table"):
        ScoredPairs.load(path)
    path.write_text("nothing")
    with pytest.raises(UserError, match=f"^{re.escape(str(path))}: the table of scored pairs is damaged"):
        ScoredPairs.load(path)
    save_file({"x": np.zeros(1)}, path)
    with pytest.raises(UserError, match=f"^{re.escape(str(path))}: format None .*allowed: 'flowbert-scored-pairs-2'"):
        ScoredPairs.load(path)


def test_methods_are_joined_on_the_same_pairs_only() -> None:
    joined = scored(raw=1.0, zca=2.0).joined(scored(zca=3.0, flow=4.0))
    assert {name: values[0][0] for name, values in joined.predicted.items()} == {"raw": 1.0, "zca": 3.0, "flow": 4.0}
    other = scored(raw=1.0)
    changed = ScoredPairs("T", "dev", other.subsets, (other.gold[0] + 1, other.gold[1]), other.predicted)
    with pytest.raises(UserError, match="pairs of T dev cannot join T dev; allowed: the same"):
        other.joined(changed)

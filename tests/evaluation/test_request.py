"""Plain values of a user, and the tasks, corpora, methods and labels that they stand for."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from flowbert.data.sts import STSTask, Subset
from flowbert.errors import UserError
from flowbert.evaluation.request import (
    Methods,
    as_numbers,
    corpus_loader,
    corpus_names,
    labels_loader,
    methods_of,
    score_limits,
)
from flowbert.tasks import STS


def task(name: str, splits: Sequence[str] = ("test",)) -> STSTask:
    subset = Subset(name, ("a", "b", "c"), ("d", "e", "f"), np.array([5.0, 1.0, 3.0]))
    return STSTask(name, {split: [subset] for split in splits})


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ("target, nli", ["target", "nli"]),
        ("hub:a/b,target", ["hub:a/b", "target"]),
        ("a.txt,b.txt", ["a.txt,b.txt"]),
        (["a.txt", "nli"], ["a.txt", "nli"]),
    ],
)
def test_commas_part_names_of_corpora_and_not_paths(given: str | list[str], names: list[str]) -> None:
    assert corpus_names(given) == names


def test_a_corpus_is_loaded_once_and_drawn_from_by_the_seed(tmp_path: Path) -> None:
    file = tmp_path / "corpus.txt"
    file.write_text("".join(f"sentence {number}\n" for number in range(50)))
    first, second = STS(task("A")), STS(task("B"))
    load = corpus_loader(max_sentences=10)
    assert load(str(file), first) is load(str(file), first)
    assert load(str(file), first).sentences == load(str(file), second).sentences
    assert len(load(str(file), first)) == 10
    assert corpus_loader(max_sentences=10, seed=1)(str(file), first) != load(str(file), first)
    assert load("target", first).sentences == ("a", "b", "c", "d", "e", "f")


def test_labels_are_those_of_a_train_split() -> None:
    measured = STS(task("A", ["train", "test"]))
    assert [subset.name for subset in labels_loader(None, task)(measured)] == ["A"]
    assert [subset.name for subset in labels_loader("B", lambda n: task(n, ["train"]))(measured)] == ["B"]
    with pytest.raises(UserError, match="labels: task B has no train split"):
        labels_loader("B", task)


@pytest.mark.parametrize("given", ["raw,whitening-8+zca", ["raw", "whitening-8+zca"], ["raw", ["whitening-8", "zca"]]])
def test_methods_as_text_and_as_lists(given: Methods) -> None:
    assert [method.name for method in methods_of(given, None, "cpu")] == ["raw", "whitening-8+zca"]


@pytest.mark.parametrize("argument", ["flow", "given"])
def test_a_run_that_no_method_takes_is_refused(argument: str) -> None:
    allowed = f"{argument}: received runs/x; allowed with methods raw, zca: none, or {argument} among them"
    with pytest.raises(UserError, match=allowed):
        methods_of("raw,zca", **({"flow": None} | {argument: "runs/x"}), device="cpu")
    assert [method.name for method in methods_of("raw", "fit", "cpu")] == ["raw"]  # nothing to fit is no mistake


@pytest.mark.parametrize("given", ["1", "5,0", [1.0, 2.0, 3.0], "low,5"])
def test_a_range_is_two_numbers_in_order(given: str | list[float]) -> None:
    with pytest.raises(UserError, match="score_range: received"):
        score_limits(given)
    assert score_limits("[0, 5]") == (0, 5)


def test_numbers_are_of_a_kind() -> None:
    assert as_numbers([0.5, 1], "x", float) == [0.5, 1]
    with pytest.raises(UserError, match="seeds: received '0,x'; allowed: numbers"):
        as_numbers("0,x", "seeds", int)

"""The contract that every kind of task keeps, and how a new kind is added."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from flowbert.data.corpus import Corpus
from flowbert.errors import UserError
from flowbert.tasks import KINDS, Task, TaskOptions, load_tasks
from flowbert.tasks.protocol import Embed, Transform
from flowbert.tasks.resampling import Counts


@pytest.fixture
def sources(tmp_path: Path) -> dict[str, str]:
    """One source for each kind of task."""
    pairs, answers = tmp_path / "mine.tsv", tmp_path / "answers.csv"
    lines = [f"left {n}\tright {n}{' x' * (n % 4)}\t{1 + n % 5}" for n in range(15)]
    pairs.write_text("\n".join(["sentence1\tsentence2\tscore", *lines]) + "\n")
    answers.write_text("qtext,label,atext\n" + "".join(f"q{n // 3},{int(n % 3 == 0)},a{n}\n" for n in range(15)))
    labelled = tmp_path / "labelled.csv"
    rows = [f"p{n // 2},h{n},{('entailment', 'neutral')[n % 2]}" for n in range(30)]
    labelled.write_text("\n".join(["premise,hypothesis,label", *rows]) + "\n")
    own = {"answers": answers, "probe": labelled}
    return {kind: str(own.get(kind, pairs)) for kind in KINDS}


def embed(sentences: Sequence[str]) -> torch.Tensor:
    rows = [torch.randn(4, generator=torch.Generator().manual_seed(sum(text.encode()))) for text in sentences]
    return torch.stack(rows)


def test_the_kinds() -> None:
    assert {"answers", "sts", "lexical", "probe", "retrieval"} <= KINDS.keys()


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_keeps_the_contract(kind: str, sources: dict[str, str]) -> None:
    (task,) = load_tasks({kind: [sources[kind]]}, TaskOptions())
    (again,) = load_tasks({kind: [sources[kind]]}, TaskOptions())
    assert task.kind == task.key["kind"] == kind
    assert task.key == again.key
    prepared = task.prepare(embed)
    measured = task.measure(prepared, lambda x: x + 0.5)
    assert tuple((figure.metric, figure.aggregation) for figure in measured.figures) == task.measures
    assert all(np.isfinite(figure.value) and not figure.reason for figure in measured.figures)
    assert measured.items.shape == task.item_shape
    assert {"task": task.name, "split": "test"}.items() <= measured.columns.items()
    assert task.headline is None or task.headline in {metric for metric, _ in task.measures}
    replicates = task.resample({"one": measured.items, "twin": measured.items.copy()}, resamples=20)
    assert tuple(replicates) == task.measures
    for figure, each in zip(measured.figures, replicates.values(), strict=True):
        assert each.interval("one").value == figure.value
        assert each.methods == (*task.references, "one", "twin")
        same = each.difference("one", "twin")
        assert (same.value, same.low, same.high) == (0, 0, 0)
    first, second = task.pairs()
    assert set(first) | set(second) <= set(task.sentences())
    assert set(task.sentences()) <= set(task.corpus("target").sentences)


@pytest.mark.parametrize("kind", KINDS)
def test_a_flaw_leaves_no_figure_but_says_why(kind: str, sources: dict[str, str]) -> None:
    (task,) = load_tasks({kind: [sources[kind]]}, TaskOptions())
    measured = task.measure(task.prepare(embed), None, "too few sentences")
    assert all(np.isnan(figure.value) for figure in measured.figures)
    assert {figure.reason for figure in measured.figures} == {"too few sentences"}
    assert np.isnan(measured.items).all()
    assert measured.items.shape == task.item_shape


def test_tasks_are_loaded_by_kind_and_split() -> None:
    options = TaskOptions(splits=("dev", "test"), positive_above=3)
    tasks = load_tasks({"sts": ["SAMPLE"], "retrieval": ["SAMPLE"]}, options)
    assert [(task.kind, task.split) for task in tasks] == [
        ("sts", "dev"), ("sts", "test"), ("retrieval", "dev"), ("retrieval", "test")
    ]  # fmt: skip
    with pytest.raises(UserError, match="tasks: two are called 'SAMPLE'; allowed: files of different names"):
        load_tasks({"sts": ["SAMPLE", "SAMPLE"]}, TaskOptions())
    with pytest.raises(UserError, match="no split 'validation'"):
        load_tasks({"sts": ["SAMPLE"]}, TaskOptions(splits=("validation",)))


def test_a_new_kind_is_one_class() -> None:
    class Lengths(Task, kind="lengths"):
        """Share of sentences whose vector is longer than one."""

        measures = (("long", "all"),)
        name, split = "L", "test"

        @classmethod
        def load(cls, source: str, options: TaskOptions) -> list[Self]:
            del source, options
            return [cls()]

        key: dict[str, Any] = {"kind": "lengths"}  # noqa: RUF012
        item_shape = strata = (3,)

        def sentences(self) -> list[str]:
            return ["a", "b", "c"]

        def pairs(self) -> tuple[list[str], list[str]]:
            return [], []

        def corpus(self, name: str) -> Corpus:
            return Corpus.of(name, self.sentences())

        def prepare(self, embed: Embed) -> Any:
            return torch.as_tensor(embed(self.sentences()))

        def item_values(self, prepared: Any, transform: Transform | None) -> NDArray[np.float64]:
            long: NDArray[np.float64] = (prepared.norm(dim=1) > 1).double().numpy()
            return long

        def aggregate(self, items: NDArray[np.float64]) -> list[float]:
            return [float(items.mean())]

        def estimator(self, items: Sequence[NDArray[np.float64]]) -> Callable[[Counts], NDArray[np.float64]]:
            return lambda counts: np.array([counts @ each / 3 for each in items])[None]

    try:
        (task,) = load_tasks({"sts": ["lengths:mine"], "lexical": ["lengths:mine"]}, TaskOptions())
        measured = task.measure(task.prepare(lambda texts: 2 * np.eye(3)[: len(texts)]))
        assert measured.figures[0].value == 1
        assert task.resample({"raw": measured.items}, resamples=9)["long", "all"].interval("raw").low == 1
    finally:
        del KINDS["lengths"]

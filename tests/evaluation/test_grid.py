"""The grid: every combination once, each map fitted once per corpus, equal settings recognized."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from flowbert.calibration import LearnedRemoval, Whitening
from flowbert.data.corpus import Corpus
from flowbert.data.sts import STSTask, Subset
from flowbert.errors import UserError
from flowbert.evaluation.grid import Cell, Request, Source, reference_rows, run, shares
from flowbert.evaluation.results import rows_of
from flowbert.methods import Chain, Method, parse_methods
from flowbert.tasks import STS, Lexical, Retrieval, Task

WORDS = [f"sentence {number}" for number in range(40)]
DIM = 5


def vectors(sentences: Sequence[str]) -> NDArray[np.float32]:
    """A fixed vector per sentence."""
    rows = [np.random.default_rng(int(text.split()[1])).normal(size=DIM) + 2 for text in sentences]
    return np.array(rows, dtype=np.float32)


def task(name: str, start: int = 0, splits: Sequence[str] = ("train", "test")) -> STSTask:
    subset = Subset(name, tuple(WORDS[start : start + 10]), tuple(WORDS[start + 10 : start + 20]), np.arange(10) / 2)
    return STSTask(name, {split: [subset] for split in splits})


def source(key: str = "k", seen: list[str] | None = None) -> Source:
    def prepare(sentences: Iterable[str]) -> None:
        if seen is not None:
            seen.extend(sentences)

    return Source({"encoder": key, "layers": "last", "pooling": "mean"}, {"key": key}, DIM, vectors, prepare)


def whitening(built: list[int] | None = None, seeded: bool = False) -> Method:
    def build(seed: int) -> Chain:
        if built is not None:
            built.append(seed)
        return Chain([Whitening(shrinkage=0.1)])

    return Method("whitening", build=build, seeded=seeded)


NLI = Corpus.of("nli", WORDS)


def corpus_of(name: str, task: Task) -> Corpus:
    return NLI if name == "nli" else task.corpus(name)


def request(**changes: object) -> Request:
    plain = Request(
        embeddings=[source()],
        tasks=[STS(task("A")), STS(task("B", 20))],
        methods=[Method("raw"), whitening()],
        corpora=["target"],
        corpus_of=corpus_of,
        labels_of=lambda task: task.labelled(),
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def names(cells: Sequence[Cell]) -> list[tuple[str, str, str]]:
    return [(c.task.name, c.method.name, "none" if c.corpus is None else c.corpus.name) for c in cells]


def test_every_combination_once_and_raw_once_per_task() -> None:
    cells = request(corpora=["target", "nli"]).cells()
    expected = [("raw", "none"), ("whitening", "target"), ("whitening", "nli")]
    assert names(cells) == [(task, *rest) for task in "AB" for rest in expected]
    assert len({cell.setting for cell in cells}) == len(cells)


def test_a_shared_corpus_is_fitted_once() -> None:
    built: list[int] = []
    cells = request(methods=[whitening(built)], corpora=["nli"]).cells()
    assert len(list(run(cells))) == 2
    assert len(built) == 1
    list(run(request(methods=[whitening(built)]).cells()))
    assert len(built) == 3


SHARING = "standardization,nulling-2,nulling-2:standardize=true,whitening:shrinkage=0.1,raw,whitening-2"
SHARING += ",zca:shrinkage=ledoit-wolf,standardization+whitening-3:shrinkage=0.2,truncation-3"


def test_maps_of_one_corpus_are_those_of_each_alone_and_look_it_up_once() -> None:
    """Moments are shared by what has the same embeddings and corpus, and by nothing else, bit for bit."""
    looked_up: list[tuple[str, int]] = []

    def counting(name: str) -> Source:
        def embed(sentences: Sequence[str]) -> NDArray[np.float32]:
            looked_up.append((name, len(sentences)))
            return vectors(sentences) ** (2 if name == "other" else 1)

        return replace(source(name), embed=embed)

    methods = parse_methods(SHARING.split(","), None, torch.device("cpu"))
    removal = Method("removal", build=lambda _: Chain([LearnedRemoval(2, center=False)]), supervised=True)
    both = STSTask("B", {"train": task("A").splits["test"], "test": task("B", 20).splits["test"]})
    cells = request(
        embeddings=[counting("k"), counting("other")],
        tasks=[STS(both)],
        methods=[*methods, removal],
        corpora=["target", "nli"],
        corpus_of=lambda name, task: Corpus.of("nli", WORDS[5:]) if name == "nli" else task.corpus(name),
    ).cells()
    together = [measured for _, measured in run(cells)]
    # Rows of a corpus: its moments, and what the second step of the composition is fitted on.
    assert sorted(looked_up) == sorted(
        (name, size) for name in ("k", "other") for size in [20, 40, 40, 35, 35, *[10] * 4]
    )
    for cell, measured in zip(cells, together, strict=True):
        ((_, alone),) = run([cell])
        np.testing.assert_array_equal(measured.items, alone.items, err_msg=cell.method.name)


@pytest.mark.parametrize("processes", [1, 2, 3, 50])
def test_cells_are_dealt_out_once_and_each_map_is_fitted_by_one_process(processes: int) -> None:
    methods = [*parse_methods(["raw", "whitening", "zca"], None, torch.device("cpu")), whitening(seeded=True)]
    cells = request(
        embeddings=[source("k"), source("other")], methods=methods, corpora=["target", "nli"], seeds=[0, 1, 2]
    ).cells()
    parts = shares(cells, processes)
    assert len(parts) == processes
    assert sorted(cell.setting for part in parts for cell in part) == sorted(cell.setting for cell in cells)
    for sharing in ("fit_key", "corpus"):  # what starts from the same moments, too
        found = [
            {
                (cell.source, getattr(cell, sharing))
                for cell in part
                if cell.corpus and (sharing == "fit_key" or cell.seed is None)
            }
            for part in parts
        ]
        assert sum(map(len, found)) == len(set().union(*found))
    seeded = [sum(cell.seed is not None for cell in part) for part in parts]
    assert processes == 50 or max(seeded) <= 2 * min(seeded)


def test_figures_are_those_of_the_calibration() -> None:
    (cell,) = request(tasks=[STS(task("A"))], methods=[whitening()]).cells()
    ((_, measured),) = run([cell])
    fitted = Whitening(shrinkage=0.1).fit(vectors(cell.task.corpus("target").sentences))
    left, right = (fitted.transform(vectors(side)) for side in (WORDS[:10], WORDS[10:20]))
    expected = torch.cosine_similarity(left.double(), right.double()).numpy()
    np.testing.assert_allclose(measured.items, expected, atol=1e-6)


def test_seeds_are_cells_of_their_own() -> None:
    built: list[int] = []
    cells = request(tasks=[STS(task("A"))], methods=[whitening(built, seeded=True)], seeds=[3, 4]).cells()
    assert [cell.seed for cell in cells] == [3, 4]
    rows = [rows_of(measured, **cell.columns)[0] for cell, measured in run(cells)]
    assert built == [3, 4]
    assert [row.seed for row in rows] == [3, 4]


def test_setting_follows_what_decides_a_figure() -> None:
    def setting(**changes: object) -> str:
        (cell,) = request(**({"tasks": [STS(task("A"))], "methods": [whitening()]} | changes)).cells()
        return cell.setting

    same = setting()
    assert setting() == same
    others = [
        setting(embeddings=[source("other weights")]),
        setting(corpora=["nli"]),
        setting(tasks=[STS(task("A", 1))]),
        setting(tasks=[STS(task("A"), "train")]),
        setting(tasks=[Retrieval(task("A"), positive_above=3)]),
        setting(tasks=[STS(task("A"), uniformity_limit=5)]),
        setting(methods=[replace(whitening(), identity="other file")]),
    ]
    assert len({same, *others}) == len(others) + 1


def test_only_what_is_needed_is_encoded() -> None:
    seen: list[str] = []
    list(run(request(embeddings=[source(seen=seen)], tasks=[STS(task("A"))], methods=[Method("raw")]).cells()))
    assert set(seen) == set(WORDS[:20])


def test_supervised_methods_need_labels() -> None:
    removal = Method("removal", build=lambda _: Chain([LearnedRemoval(2)]), supervised=True)
    both = STSTask("A", {"train": task("A", 20).splits["test"], "test": task("A").splits["test"]})
    (cell,) = request(tasks=[STS(both)], methods=[removal]).cells()
    ((_, measured),) = run([cell])
    assert rows_of(measured, **cell.columns)[0].supervised
    with pytest.raises(UserError, match="task A has no train split, or none beside what is measured; allowed: "):
        list(run(request(tasks=[STS(task("A", splits=["test"]))], methods=[removal]).cells()))


def test_a_ready_map_may_refuse_a_source() -> None:
    def check(_: object) -> None:
        raise UserError("another encoder")

    with pytest.raises(UserError, match="another encoder"):
        list(run(request(methods=[Method("flow", ready=lambda x: x, check=check)]).cells()))


def test_what_is_no_method_has_rows_of_its_own() -> None:
    lexical = Lexical(STSTask("A", {"test": [Subset("A", ("a b", "c"), ("a b", "c d"), np.array([5.0, 1.0]))]}))
    (row,) = reference_rows([STS(task("B")), lexical])
    assert (row.method, row.encoder, row.corpus, row.task, row.pairs) == ("gold", "none", "none", "A", 2)
    assert (row.metric, row.aggregation, round(row.value, 6)) == ("edit_distance_words", "all", -1)
    assert np.isnan(row.spearman)

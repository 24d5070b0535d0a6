"""No pair that is measured is learned from, whatever the task, the source of the labels and the order of a pair."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from helpers.data import make_data
from numpy.typing import NDArray

from flowbert.calibration import LearnedRemoval
from flowbert.cli import main
from flowbert.data.answers import AnswerTask
from flowbert.data.corpus import Corpus
from flowbert.data.entailment import EntailmentTask
from flowbert.data.labels import unmeasured
from flowbert.data.nli import NLIData
from flowbert.data.sample import sample_pairs
from flowbert.data.sts import TASKS, STSTask, Subset, load_task
from flowbert.datamodules.siamese import SiameseDataModule
from flowbert.errors import FlowbertWarning, UserError
from flowbert.evaluation.grid import Cell, Request, Source, run
from flowbert.evaluation.results import rows_of
from flowbert.methods import Chain, Method
from flowbert.tasks import STS, AnswerRanking, Lexical, Probe, Retrieval, Task

REMOVAL = Method("learned-removal", build=lambda _: Chain([LearnedRemoval(2)]), supervised=True)


def subset(start: int, pairs: int = 12) -> Subset:
    first, second = ([f"{side} {number}" for number in range(start, start + pairs)] for side in ("left", "right"))
    return Subset(f"S{start}", tuple(first), tuple(second), np.arange(pairs, dtype=np.float64) % 6)


def swapped(given: Subset) -> Subset:
    return Subset(given.name, given.sentences2, given.sentences1, given.scores)


def respelled(given: Subset) -> Subset:
    first, second = (tuple(f" {text.upper()}  " for text in side) for side in (given.sentences1, given.sentences2))
    return Subset(given.name, first, second, given.scores)


def embed(sentences: Sequence[str]) -> NDArray[np.float32]:
    rows = [np.random.default_rng(list(text.strip().lower().encode())).normal(size=6) for text in sentences]
    return np.array(rows, dtype=np.float32)


def entailment(start: int) -> NLIData:
    pairs = subset(start)
    return NLIData(pairs.sentences1, pairs.sentences2, ("entailment", "neutral") * 6)


def tasks() -> list[Task]:
    data = STSTask("T", {"test": [subset(0), subset(100)], "dev": [subset(200)]})
    questions, answers = subset(0).sentences1, subset(0).sentences2
    answers_of = AnswerTask("Q", questions, answers, np.arange(12), np.arange(12) % 2 == 0)
    labelled = {split: entailment(start) for split, start in (("train", 300), ("dev", 400), ("test", 0))}
    probe = Probe(EntailmentTask("P", labelled))
    return [STS(data), STS(data, "dev"), Retrieval(data), AnswerRanking(answers_of), Lexical(data), probe]


def request(task: Task, labels: Sequence[Subset], drop: bool = False) -> Request:
    return Request(
        embeddings=[Source({"encoder": "e", "layers": "l", "pooling": "p"}, {}, 6, embed, lambda _: None)],
        tasks=[task],
        methods=[REMOVAL],
        corpora=["c"],
        corpus_of=lambda name, _: Corpus.of(name, [*subset(0, 60).sentences1, *subset(0, 60).sentences2]),
        labels_of=lambda _: labels,
        drop_overlap=drop,
    )


@pytest.mark.parametrize("change", [lambda s: s, swapped, respelled], ids=["as it is", "swapped", "respelled"])
@pytest.mark.parametrize("number", range(6))
@pytest.mark.parametrize("start", [0, 6, 11, 94, 189, 206, 500])
def test_every_task_refuses_labels_that_it_measures(
    number: int, start: int, change: Callable[[Subset], Subset]
) -> None:
    task = tasks()[number]
    labels = [subset(700), change(subset(start))]
    measured = {frozenset(pair) for pair in zip(*task.pairs(), strict=True)}
    expected = sum(
        frozenset(p) in measured for p in zip(subset(start).sentences1, subset(start).sentences2, strict=True)
    )
    if expected:
        message = rf"{expected} of 24 labelled pairs are among those measured, {task.name} {task.split} \(the first: '"
        with pytest.raises(UserError, match=message):
            request(task, labels).cells()
        with pytest.raises(UserError, match=message):
            Cell(request(task, ()).embeddings[0], task, REMOVAL, Corpus.of("c", ["a"]), None, tuple(labels))
        with pytest.warns(FlowbertWarning, match=f"^{expected} of 24 labelled pairs .* learning without them"):
            cells = request(task, labels, drop=True).cells()
    else:
        cells = request(task, labels).cells()
    ((cell, measured_now),) = run(cells)
    assert sum(map(len, cell.labels)) == 24 - expected
    assert all(row.supervised for row in rows_of(measured_now, **cell.columns))
    assert not {frozenset(p) for s in cell.labels for p in zip(s.sentences1, s.sentences2, strict=True)} & measured


def test_labels_that_are_all_measured_leave_nothing_to_learn_from() -> None:
    with pytest.warns(FlowbertWarning), pytest.raises(UserError, match="none beside what is measured"):
        request(tasks()[0], [subset(0)], drop=True).cells()


def test_scores_stay_with_their_pairs() -> None:
    measured = (("left 1", "x"), ("right 1", "y"))
    with pytest.warns(FlowbertWarning, match="1 of 12"):
        (kept,) = unmeasured([subset(0)], lambda: measured, "T", drop_overlap=True)
    assert kept.sentences1 == tuple(f"left {n}" for n in range(12) if n != 1)
    np.testing.assert_array_equal(kept.scores, [n % 6 for n in range(12) if n != 1])
    unmeasured([kept], lambda: measured, "T")


def write(path: Path, pairs: Sequence[tuple[str, str, float]]) -> Path:
    path.write_text("\n".join(["sentence1\tsentence2\tscore", *(f"{a}\t{b}\t{s}" for a, b, s in pairs)]) + "\n")
    return path


@pytest.mark.filterwarnings("default::flowbert.errors.FlowbertWarning")
@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize("measured", ["SAMPLE", "file"])
@pytest.mark.parametrize("labels", [None, "SAMPLE", "same file", "other file", "overlapping file"])
def test_the_command_never_learns_from_what_it_measures(
    labels: str | None, measured: str, swap: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    test, train = sample_pairs("test"), sample_pairs("train")[:100]
    own = write(tmp_path / "own.tsv", test[:100])
    turned = [(b, a, s) if swap else (a, b, s) for a, b, s in test[:40]]
    files = {
        "same file": own,
        "other file": write(tmp_path / "other.tsv", train),
        "overlapping file": write(tmp_path / "overlap.tsv", [*train, *turned]),
    }
    options = [] if labels is None else ["--labels", str(files.get(labels, labels))]
    argv = ["evaluate", "--tasks", str(own) if measured == "file" else "SAMPLE", "--methods", "learned-removal-4"]
    argv += [*options, "--output", str(tmp_path / "r.json"), "--bootstrap", "0"]
    refused = {
        (None, "file"): "task own has no train split",
        ("same file", "file"): "100 of 100 labelled pairs are among those measured, own test",
        ("same file", "SAMPLE"): "100 of 100 labelled pairs are among those measured, SAMPLE test",
        ("overlapping file", "file"): "40 of 140 labelled pairs are among those measured",
        ("overlapping file", "SAMPLE"): "40 of 140 labelled pairs are among those measured",
    }
    message = refused.get((labels, measured))
    if message is None:
        main(argv)
        return
    with pytest.raises(SystemExit):
        main(argv)
    assert message in capsys.readouterr().err
    if labels == "overlapping file":
        main([*argv, "--drop_overlap"])
        assert "warning: 40 of 140 labelled pairs" in capsys.readouterr().err


def test_random_scores_teach_nothing() -> None:
    """The leak as it was found: random gold scores, labels from the task itself."""
    generator = np.random.default_rng(0)
    noise = Subset("N", subset(0, 60).sentences1, subset(0, 60).sentences2, generator.normal(size=60))
    with pytest.raises(UserError, match="60 of 60 labelled pairs"):
        request(STS(STSTask("N", {"test": [noise]})), [swapped(noise)]).cells()


# Most of it in headlines, which the years hold in another case.
OVERLAP_WITH_STSB = {"STS13": 301, "STS14": 357, "STS15": 322, "STS16": 113, "STSB": 17}


@pytest.mark.parametrize("labels", [*TASKS])
@pytest.mark.parametrize("measured", [*TASKS])
def test_real_tasks(labels: str, measured: str, real: Path) -> None:
    root = real / "data" / "senteval"
    source, task = load_task(labels, root), STS(load_task(measured, root))
    if "train" not in source.splits:
        with pytest.raises(SystemExit):
            main(["evaluate", "--tasks", measured, "--senteval", str(root), "--labels", labels])
        return
    overlap = {("STSB", year): pairs for year, pairs in OVERLAP_WITH_STSB.items()} | {("SICKR", "SICKR"): 93}
    expected = overlap.get((labels, measured), 0)
    train = source.splits["train"]
    if expected:
        with pytest.raises(UserError, match=rf"^{expected} of \d+ labelled pairs"):
            unmeasured(train, task.pairs, measured)
    else:
        unmeasured(train, task.pairs, measured)


@pytest.mark.parametrize("swap", [False, True])
def test_sentence_bert_is_not_trained_on_pairs_that_are_measured(swap: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = subset(8, 4)
    shared = STSTask("T", {"train": [subset(0)], "test": [swapped(measured) if swap else measured]})
    for module in ("siamese", "options"):
        monkeypatch.setattr(f"flowbert.datamodules.{module}.load_task", lambda *_: shared)
    with pytest.raises(UserError, match=r"4 of 12 labelled pairs are among those measured, T test .*drop_overlap"):
        make_data(SiameseDataModule, source="sts", tasks="T", batch_size=2).load()
    data = make_data(SiameseDataModule, source="sts", tasks="T", batch_size=2, drop_overlap=True)
    with pytest.warns(FlowbertWarning, match=r"4 of 12 labelled pairs .*: learning without them"):
        data.load()
    assert data.fitted_examples == 8

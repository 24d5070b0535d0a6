"""The scripts in tools/: the sample's text, what a wheel lacks, the tables of research notes."""

import random
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from examples.low_overlap import word_overlap
from flowbert import compare
from flowbert.data import sample
from flowbert.encoders import EncoderOptions
from flowbert.tasks import load_task, spearman
from tools import encoder_choice, lexical
from tools.check_wheel import missing_files
from tools.sample import make, meaning
from tools.sample.lexicon import inflect, lexicon


def test_the_sample_is_reproduced() -> None:
    assert make.sample_corpus() == sample.sample_corpus()
    assert make.sample_nli() == sample.sample_nli()
    for split in sample.SPLITS:
        assert make.sample_pairs(split) == sample.sample_pairs(split)


def test_its_files_are_read_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make.write(tmp_path)
    monkeypatch.setattr(sample, "_FOLDER", tmp_path)
    pairs = sample.sample_pairs.__wrapped__("dev")
    assert pairs == make.sample_pairs("dev")


@pytest.mark.parametrize("edit", [*meaning.EDITS, meaning.negate, meaning.add_detail])
def test_edits_give_meanings_with_a_wording(edit: meaning.Edit) -> None:
    rng = random.Random(3)
    for _ in range(50):
        event = meaning.random_event(rng)
        edited = edit(rng, event)
        agents, patients = lexicon().frames[edited.action.group]
        assert edited.agent.kind.group in agents
        assert (edited.patient is None) == (not patients)
        score = meaning.similarity_score(event, edited)
        assert 0 <= score <= meaning.similarity_score(event, event) == 5


@pytest.mark.parametrize(
    ("verb", "forms"),
    [
        ("carry", ("carrying", "carried", "carried")),
        ("lie down", ("lying down", "lay down", "lain down")),
        ("chase", ("chasing", "chased", "chased")),
    ],
)
def test_inflection(verb: str, forms: tuple[str, ...]) -> None:
    inflected = inflect(verb)
    assert (inflected.ing, inflected.past, inflected.participle) == forms


def test_an_incomplete_wheel(tmp_path: Path) -> None:
    files = ["flowbert/__init__.py", "flowbert/data/words.txt", "configs/a.yaml"]
    for name in files:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    with zipfile.ZipFile(tmp_path / "some.whl", "w") as archive:
        archive.write(tmp_path / files[0], files[0])
    missing = missing_files(tmp_path / "some.whl", tmp_path)
    assert missing == ["flowbert/configs/a.yaml", "flowbert/data/words.txt"]


@pytest.mark.filterwarnings("ignore:whitening.* few")  # sentences
def test_the_table_of_words_and_encoders(tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.tsv"
    lines = ["\t".join(map(str, pair)) for pair in sample.sample_pairs("test")[:80]]
    pairs.write_text("\n".join(["sentence1\tsentence2\tscore", *lines]), "utf-8")
    output, picture = tmp_path / "table.csv", tmp_path / "picture.svg"
    options = ["--encoders", "builtin-sample", "--tasks", str(pairs)]
    options += ["--bootstrap", "20", "--output", str(output)]
    lexical.main([*options, "--picture", str(picture)])
    frame = pd.read_csv(output).fillna("")
    frame = frame[frame["aggregation"] == "all"]

    def cell(part: str, method: str, column: str, layers: str = "") -> Any:
        of_row = frame[["part", "method", "layers"]] == [part, method, layers]
        return frame.loc[of_row.all(axis=1), column].item()

    for part, kind in lexical.PARTS.items():
        task: Any = load_task(f"{kind}{pairs}")
        expected = 100 * spearman(word_overlap(*task.pairs()), task.gold)
        assert cell(part, "word overlap", "value") == pytest.approx(expected)
        assert cell(part, "word overlap", "encoder") == ""
    encoder = EncoderOptions(layers="first_last", pooling="mean")
    results = compare(encoder, tasks=str(pairs), bootstrap=0)
    raw, whitening = (results.score(name, "pairs") for name in ("raw", "whitening"))
    tfidf = cell("all pairs", "tf-idf", "value")
    for method, value, gain in (
        ("whitening", 100 * whitening, 100 * (whitening - raw)),
        ("raw", 100 * raw, 100 * raw - tfidf),
    ):
        own = "all pairs", method
        assert cell(*own, "value", "first_last") == pytest.approx(value)
        assert cell(*own, "gain", "first_last") == pytest.approx(gain)
    assert (frame["low"] <= frame["high"]).all()
    assert "builtin-sample" in picture.read_text("utf-8")


@pytest.mark.filterwarnings("ignore")  # of few sentences
def test_encoders_are_ranked_from_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    """A space shares much with its rotation, and nothing with noise."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(500, 4)).astype(np.float32)
    turn = np.linalg.qr(rng.normal(size=(4, 4)))[0].astype(np.float32)
    near = rows @ turn + 0.1 * rng.normal(size=(500, 4)).astype(np.float32)
    noise = rng.normal(size=(500, 4)).astype(np.float32)
    spaces = {("rows", "", ""): rows, ("near", "", ""): near, ("noise", "", ""): noise}
    # Rows in the order of their tasks: what is held out is drawn from all of them.
    ordered = rows[np.argsort(rows[:, 0])]
    shuffled = encoder_choice.log_likelihood(rows, "Gaussian")
    in_order = encoder_choice.log_likelihood(ordered, "Gaussian")
    # Four standard errors: a row of four normal numbers varies by sqrt(4 / 2), 100 are held out.
    assert in_order == pytest.approx(shuffled, abs=4 * np.sqrt(2 * 2 / 100))
    for density in ("Gaussian", "flow"):
        shared = encoder_choice.shared_information(spaces, density)
        assert shared.loc[0, 1] > 3
        assert abs(shared.loc[0, 2]) < 0.2
        assert np.array_equal(shared, shared.T, equal_nan=True)
    monkeypatch.setattr(encoder_choice, "READOUTS", (("0", "mean"), ("last", "mean")))
    task = load_task("SAMPLE")
    sentences = sample.sample_corpus()[:100]
    frame = encoder_choice.measure(["builtin-sample"], [task], sentences, 8)
    options = EncoderOptions(layers="last", pooling="mean")
    raw = compare(options, "raw", bootstrap=0).score("raw", "SAMPLE")
    assert frame.loc["builtin-sample", "last", "mean"]["score"] == 100 * raw
    assert np.isfinite(frame).all(axis=None)

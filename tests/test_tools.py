"""The scripts in tools/: the sample's text, what a wheel lacks, the tables of research notes."""

import zipfile
from typing import Any

import numpy as np
import pandas as pd
import pytest

from encoders.tiny import write_tiny
from examples.low_overlap import word_overlap
from experiments.small import write_pairs
from flowbert import compare
from flowbert.data import sample
from flowbert.encoders import EncoderOptions
from flowbert.tasks import load_task, spearman
from tools import decoders, encoder_choice, lexical
from tools.check_wheel import missing_files
from tools.sample import make


def test_the_sample_is_reproduced():
    assert make.sample_corpus() == sample.sample_corpus()
    assert make.sample_nli() == sample.sample_nli()
    for split in sample.SPLITS:
        assert make.sample_pairs(split) == sample.sample_pairs(split)


def test_an_incomplete_wheel(tmp_path):
    files = ["flowbert/__init__.py", "flowbert/data/words.txt", "configs/a.yaml"]
    for name in files:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    with zipfile.ZipFile(tmp_path / "some.whl", "w") as archive:
        archive.write(tmp_path / files[0], files[0])
    missing = missing_files(tmp_path / "some.whl", tmp_path)
    assert missing == ["flowbert/configs/a.yaml", "flowbert/data/words.txt"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:whitening.* few")  # sentences
def test_the_table_of_words_and_encoders(tmp_path):
    pairs = write_pairs(tmp_path / "pairs.tsv", count=80)
    output, picture = tmp_path / "table.csv", tmp_path / "picture.svg"
    options = ["--encoders", "builtin-sample", "--tasks", pairs]
    options += ["--bootstrap", "20", "--output", str(output)]
    lexical.main([*options, "--picture", str(picture)])
    frame = pd.read_csv(output).fillna("").query("aggregation == 'all'")
    values = frame.query("layers in ['', 'first_last']")
    values = values.set_index(["part", "method"])["value"]
    for part, kind in lexical.PARTS.items():
        task: Any = load_task(f"{kind}{pairs}")
        overlap = spearman(word_overlap(*task.pairs()), task.gold)
        assert values[part, "word overlap"] == pytest.approx(100 * overlap)
    encoder = EncoderOptions(layers="first_last", pooling="mean")
    results = compare(encoder, tasks=pairs, bootstrap=0)
    whitening = 100 * results.score("whitening", "pairs")
    assert values["all pairs", "whitening"] == pytest.approx(whitening)
    assert (frame["low"] <= frame["high"]).all()
    assert "builtin-sample" in picture.read_text("utf-8")


@pytest.mark.parametrize(
    "density", ["Gaussian", pytest.param("flow", marks=pytest.mark.slow)]
)
@pytest.mark.filterwarnings("ignore")  # of few sentences
def test_a_space_shares_much_with_its_rotation_and_nothing_with_noise(
    density,
):
    rng = np.random.default_rng(0)
    rows, noise, change = (rng.normal(size=(500, 4)) for _ in range(3))
    near = rows @ np.linalg.qr(rng.normal(size=(4, 4)))[0] + 0.1 * change
    values = {"rows": rows, "near": near, "noise": noise}
    spaces = {(name, "", ""): x.astype(np.float32) for name, x in values.items()}
    shared = encoder_choice.shared_information(spaces, density)
    assert shared.loc[0, 1] > 3
    assert abs(shared.loc[0, 2]) < 0.2
    assert np.array_equal(shared, shared.T, equal_nan=True)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of few sentences
def test_the_choice_of_encoders_has_the_scores_of_compare(
    monkeypatch,
):
    monkeypatch.setattr(encoder_choice, "READOUTS", (("0", "mean"), ("last", "mean")))
    sentences = sample.sample_corpus()[:100]
    tasks = [load_task("SAMPLE")]
    frame = encoder_choice.measure(["builtin-sample"], tasks, sentences, 8)
    options = EncoderOptions(layers="last", pooling="mean")
    raw = compare(options, "raw", bootstrap=0).score("raw", "SAMPLE")
    assert frame.loc["builtin-sample", "last", "mean"]["score"] == 100 * raw
    assert np.isfinite(frame).all(axis=None)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:whitening")  # constant last tokens of layer 0
def test_the_table_of_decoders(tmp_path):
    encoder = str(write_tiny(tmp_path / "llama", "llama"))
    table, picture = tmp_path / "table.csv", tmp_path / "picture.svg"
    options = ["--encoder", encoder, "--dtype", "float32", "--tasks", "SAMPLE"]
    options += ["--output", str(table), "--picture", str(picture)]
    decoders.main([*options, "--templates", "none"])
    decoders.main([*options, "--templates", "none,knowledge"])
    frame = pd.read_csv(table).set_index(decoders.COLUMNS[:4])["value"]
    assert len(frame) == 2 * 4 * 2 * 6
    same = EncoderOptions(encoder, layers=2, template="knowledge", pooling="mean")
    expected = compare(same, "centering", split="dev", bootstrap=0)
    score = expected.score("centering", "SAMPLE", aggregation="all")
    assert frame["knowledge", 2, "mean", "centering"] == pytest.approx(100 * score)
    assert picture.read_text().count("<path") > 24

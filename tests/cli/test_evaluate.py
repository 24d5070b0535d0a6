"""evaluate through the real entry point: the command lines that scripts rely on."""

import json
from pathlib import Path

import pytest
import torch

from flowbert import SentenceEncoder, Whitening, evaluate_task, load_corpus, load_task
from flowbert.cli import main

SAMPLE = ("--encoder.layers", "first_last", "--nli", "builtin-sample")
FIELDS = {
    *("method", "encoder", "layers", "pooling", "corpus", "task", "aggregation"),
    *("spearman", "pairs", "alignment", "uniformity", "seed"),
}


def evaluate(output: Path, *options: str) -> list[dict[str, object]]:
    main(["evaluate", "--output", str(output), *options])
    content = json.loads(output.read_text(encoding="utf-8"))
    assert set(content) == {"rows", "fingerprint"}
    rows: list[dict[str, object]] = content["rows"]
    return rows


def test_rows_have_the_promised_fields_and_the_table_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = evaluate(tmp_path / "r.json", "--methods", "raw,whitening,whitening-16", "--encoder.layers", "first_last")
    assert all(set(row) >= FIELDS for row in rows)
    assert {row["method"] for row in rows} == {"raw", "whitening", "whitening-16"}
    printed = capsys.readouterr().out
    assert "Spearman x 100, aggregation: wmean" in printed
    for row in rows:
        spearman = row["spearman"]
        assert isinstance(spearman, float)
        assert f"{100 * spearman:.2f}" in printed


def test_figures_are_those_of_the_library(tmp_path: Path) -> None:
    some = ["--encoder.layers", "last2", "--max_sentences", "2000"]
    rows = evaluate(tmp_path / "r.json", "--methods", "whitening", *some)
    encoder = SentenceEncoder.from_pretrained("builtin-sample", layers="last2")
    corpus = load_corpus("target", task="SAMPLE").sample(2000, seed=0)
    whitening = Whitening().fit(encoder.encode(corpus.sentences))
    task = load_task("SAMPLE")
    expected = evaluate_task(task, "test", lambda sentences: whitening.transform(encoder.encode(sentences)))
    assert rows[0]["spearman"] == pytest.approx(expected.all, abs=1e-4)
    assert rows[0]["uniformity"] == pytest.approx(expected.uniformity, abs=1e-3)


def test_corpora_differ_and_are_named(tmp_path: Path) -> None:
    mine = tmp_path / "mine.txt"
    mine.write_text("\n".join(load_corpus("nli", nli="builtin-sample").sentences[:500]) + "\n")
    figures = set()
    for corpus in ("target", "train_only", "nli", str(mine)):
        (row, *_) = evaluate(tmp_path / "r.json", "--methods", "whitening:shrinkage=0.1", "--corpus", corpus, *SAMPLE)
        assert row["corpus"] == corpus
        figures.add(row["spearman"])
    assert len(figures) == 4


def test_numbers_name_layers_too(tmp_path: Path) -> None:
    named = evaluate(tmp_path / "a.json", "--methods", "raw", "--encoder.layers", "first_last")
    numbered = evaluate(tmp_path / "b.json", "--methods", "raw", "--encoder.layers", "[1,-1]")
    assert [row["spearman"] for row in named] == [row["spearman"] for row in numbered]
    assert named[0]["layers"] == "first_last"
    assert named[0]["layer_numbers"] == numbered[0]["layer_numbers"] == [1, 4]


def test_device_of_a_test_machine() -> None:
    from flowbert.cli.options import chosen_device

    assert chosen_device("cpu") == torch.device("cpu")
    assert chosen_device("auto").type in ("cpu", "cuda", "mps")

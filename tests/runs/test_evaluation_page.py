"""The page of an evaluation: what it shows of the space, whichever run computed it."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flowbert.analysis.found import Analysis
from flowbert.data.sample import sample_pairs
from flowbert.evaluation.embeddings import EncoderSettings
from flowbert.evaluation.sample_vectors import FEWEST
from flowbert.report.panel import Panel
from flowbert.runs.compare import compare
from flowbert.runs.import_model import import_model


@pytest.fixture(autouse=True)
def _with_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOWBERT_REPORT", "1")


def evaluate(output: Path, methods: str, **options: Any) -> tuple[Analysis, str]:
    """The analysis of a run over the sample's training sentences, and its page."""
    compare(methods=methods, output=output, **{"bootstrap": 0, "max_sentences": 900, **options})
    content = json.loads(output.with_suffix(".analysis.json").read_text(encoding="utf-8"))
    return Analysis.from_json(content), output.with_suffix(".html").read_text(encoding="utf-8")


def write_pairs(path: Path, start: int, count: int) -> str:
    lines = [f"{a}\t{b}\t{score}" for a, b, score in sample_pairs("test")[start : start + count]]
    path.write_text("\n".join(["sentence1\tsentence2\tscore", *lines]) + "\n", encoding="utf-8")
    return str(path)


def test_two_halves_show_what_one_run_shows(tmp_path: Path) -> None:
    whole, _ = evaluate(tmp_path / "whole.json", "raw,whitening-8")
    evaluate(tmp_path / "halves.json", "whitening-8")
    halves, page = evaluate(tmp_path / "halves.json", "raw,whitening-8")
    assert halves == whole
    assert list(whole.spectra) == ["raw", "whitening-8"]
    assert any(each.moved for by_method in whole.neighbours.values() for each in by_method["whitening-8"])
    assert "the maps were fitted on 900 sentences of the corpus target" in page
    assert "Without" not in page


def test_what_an_earlier_run_kept_no_vectors_of_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOWBERT_REPORT", "0")
    compare(methods="raw,whitening-8", output=tmp_path / "r.json", bootstrap=0, max_sentences=900)
    monkeypatch.setenv("FLOWBERT_REPORT", "1")
    found, page = evaluate(tmp_path / "r.json", "raw,whitening-8,nulling-2")
    assert list(found.spectra) == ["raw", "nulling-2"]
    assert "Without whitening-8: " in page


def test_a_damaged_sample_or_one_dimension_costs_its_own_method_alone(tmp_path: Path) -> None:
    found, page = evaluate(tmp_path / "r.json", "raw,whitening-1,nulling-2")
    assert list(found.spectra) == ["raw", "nulling-2"]
    assert "Without whitening-1: " in page
    for file in (tmp_path / "r.scores").glob("sample-*"):
        file.write_bytes(file.read_bytes() + b"?")
    found, page = evaluate(tmp_path / "r.json", "raw,whitening-1,nulling-2")
    assert list(found.spectra) == ["raw"]
    assert "Without whitening-1, nulling-2: " in page


def test_pictures_are_drawn_where_something_they_show_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[str] = []
    draw = Panel._drawn

    def noted(panel: Panel) -> Any:
        drawn.append(panel.name)
        return draw(panel)

    monkeypatch.setattr(Panel, "_drawn", noted)

    def redrawn(methods: str = "raw,nulling-2", **options: Any) -> set[str]:
        drawn.clear()
        evaluate(tmp_path / "r.json", methods, **options)
        return {*drawn}

    pictures = redrawn()
    files = {file: file.read_bytes() for file in (tmp_path / "r.figures").iterdir()}
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert {file.stem for file in files} == pictures
    assert redrawn() == set()
    again = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert page.split("<main>")[1].split('<h2 id="again"')[0] == again.split("<main>")[1].split('<h2 id="again"')[0]
    (tmp_path / "r.figures" / "norms.png").unlink()
    assert redrawn() == {"norms"}
    assert {file: file.read_bytes() for file in files} == files
    assert redrawn(bootstrap=20) == pictures
    assert redrawn("raw,nulling-2,standardization", bootstrap=20) == pictures
    monkeypatch.setattr("flowbert.report.page.record._drawn_by", lambda: ["another version"])
    assert redrawn("raw,nulling-2,standardization", bootstrap=20) == pictures


def test_a_picture_is_never_kept_beside_other_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed between the files of a picture, and asked for the first one again."""
    evaluate(tmp_path / "r.json", "raw,nulling-2")
    monkeypatch.setattr("flowbert.report.panel._save_png", lambda *_: sys.exit(1))
    with pytest.raises(SystemExit):
        evaluate(tmp_path / "r.json", "raw,nulling-3")
    monkeypatch.undo()
    monkeypatch.setenv("FLOWBERT_REPORT", "1")
    evaluate(tmp_path / "r.json", "raw,nulling-2")
    assert "nulling-3" not in (tmp_path / "r.figures" / "norms.csv").read_text(encoding="utf-8")


def test_each_map_names_its_own_corpus(tmp_path: Path) -> None:
    np.savez(tmp_path / "w.npz", kernel=np.eye(128), bias=np.zeros((1, 128)))
    encoder = {"path": "builtin-sample", "layers": "last", "pooling": "mean"}
    given = import_model(tmp_path / "w.npz", encoder, tmp_path / "run")
    found, page = evaluate(tmp_path / "r.json", "raw,nulling-2,given", given=str(given))
    assert found.setting["fitted_on"] == {"nulling-2": "target", "given": f"that of {given}"}
    assert f"; corpus of each map: nulling-2 target, given that of {given}." in page


def test_a_task_of_few_sentences_leaves_the_sample_to_the_next(tmp_path: Path) -> None:
    tasks = [write_pairs(tmp_path / "few.tsv", 0, FEWEST // 2 - 1), write_pairs(tmp_path / "many.tsv", 100, 300)]
    found, page = evaluate(tmp_path / "r.json", "raw,nulling-2", tasks=tasks, corpus="builtin-sample")
    assert found.setting["measured"] == "many test"
    assert found.measured > FEWEST
    encoder = EncoderSettings(pooling="idf")  # weighed by the words of each task: an encoder for each
    assert list(evaluate(tmp_path / "idf.json", "raw", tasks=tasks, encoder=encoder)[0].bands) == list(found.bands)
    found, page = evaluate(tmp_path / "few.json", "raw,nulling-2", tasks=tasks[:1], corpus="builtin-sample")
    assert found.measured == 0
    assert found.bands
    assert "</html>" in page


def test_vectors_from_elsewhere_have_nothing_to_read(tmp_path: Path) -> None:
    vectors = np.random.default_rng(0).normal(size=(300, 8)).astype(np.float32)
    lines = [f"{i}\t{i + 150}\t{i % 6}" for i in range(150)]
    (tmp_path / "pairs.tsv").write_text("\n".join(["sentence1\tsentence2\tscore", *lines]) + "\n")
    options = {"vectors": vectors, "tasks": str(tmp_path / "pairs.tsv"), "max_sentences": None}
    found, _ = evaluate(tmp_path / "r.json", "raw,whitening-8", **options)
    assert list(found.spectra) == ["raw", "whitening-8"]
    assert not found.neighbours
    assert found.points is None


def test_samples_of_other_code_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    evaluate(tmp_path / "r.json", "raw,whitening-8")
    (before,) = (tmp_path / "r.scores").glob("sample-*")
    for module in ("sample_vectors", "scores", "grid", "resumable"):
        monkeypatch.setattr(f"flowbert.evaluation.{module}.code_digest", lambda: "0" * 16)
    evaluate(tmp_path / "r.json", "raw,whitening-8")
    (after,) = (tmp_path / "r.scores").glob("sample-*")
    assert after != before

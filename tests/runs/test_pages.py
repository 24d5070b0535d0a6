"""Pages of every kind of run, as by default: nothing about them can cost a run its results."""

import html
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flowbert import compare, write_report
from flowbert.analysis.found import Analysis
from flowbert.cli import main
from flowbert.data.sample import sample_pairs
from flowbert.errors import FlowbertWarning, UserError
from flowbert.evaluation.results import load_results

FIT = ["fit", "--trainer.max_epochs", "1", "--quiet", "--encoder.layers", "first_last"]


@pytest.fixture(autouse=True)
def _with_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOWBERT_REPORT", "1")


def analysis(run: Path) -> Analysis:
    return Analysis.from_json(json.loads((run / "analysis.json").read_text(encoding="utf-8")))


def write_pairs(path: Path, count: int, split: str = "test") -> Path:
    lines = [f"{a}\t{b}\t{score}" for a, b, score in sample_pairs(split)[:count]]
    path.write_text("\n".join(["sentence1\tsentence2\tscore", *lines]) + "\n", encoding="utf-8")
    return path


def test_vectors_have_no_sentences_to_read(tmp_path: Path) -> None:
    np.save(tmp_path / "v.npy", np.random.default_rng(0).normal(size=(900, 8)).astype(np.float32))
    lines = [f"{i}\t{i + 300}\t{i % 6}" for i in range(100)]
    (tmp_path / "pairs.tsv").write_text("\n".join(["sentence1\tsentence2\tscore", *lines]) + "\n")
    run = tmp_path / "run"
    main(
        [*FIT[:4], "--vectors", str(tmp_path / "v.npy"), "--tasks", str(tmp_path / "pairs.tsv"), "--run_dir", str(run)]
    )
    found = analysis(run)
    assert set(found.spectra) == {"raw", "whitening", "flow"}
    assert not found.neighbours
    assert found.words is None
    assert (run / "report.html").is_file()


def test_a_trained_encoder_says_what_raw_is(tmp_path: Path) -> None:
    run = tmp_path / "run"
    options = [
        "--method",
        "simcse",
        "--max_sentences",
        "200",
        "--trainer.max_steps",
        "2",
        "--trainer.log_every_n_steps",
        "0",
    ]
    main([*FIT, *options, "--run_dir", str(run)])
    assert analysis(run).setting["trained"]
    assert "Raw is the encoder before the training" in (run / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["tiny.tsv", "a $x_$ & <b>.tsv"])
def test_a_tiny_task_with_an_odd_name(tmp_path: Path, name: str) -> None:
    run, pairs = tmp_path / "run", write_pairs(tmp_path / name, 4)
    main([*FIT, "--max_sentences", "900", "--corpus", "builtin-sample", "--tasks", str(pairs), "--run_dir", str(run)])
    assert analysis(run).measured == 0
    assert "</html>" in (run / "report.html").read_text(encoding="utf-8")


@pytest.mark.filterwarnings("default::flowbert.errors.FlowbertWarning")
def test_a_map_that_means_nothing_is_left_out(tmp_path: Path) -> None:
    run = tmp_path / "run"
    main([*FIT, "--max_sentences", "60", "--model.noise", "0", "--run_dir", str(run)])
    assert "raw" in analysis(run).spectra
    assert not {"whitening", "flow"} & set(analysis(run).spectra)


def test_what_goes_wrong_with_a_page_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise ValueError("no ink")

    monkeypatch.setattr("flowbert.runs.pages.write_run_page", broken)
    with pytest.warns(FlowbertWarning, match=r"no whole page \(no ink\); its results are written"):
        found = compare(methods="raw,standardization", bootstrap=20, output=tmp_path / "r.json")
    assert len(found.rows) == len(load_results(tmp_path / "r.json")[0]) == 6
    assert (tmp_path / "r.md").is_file()
    assert (tmp_path / "r.csv").is_file()
    with pytest.raises(UserError, match=r"output: received .*/r; allowed: a name that ends in \.json"):
        compare(output=tmp_path / "r")


def test_a_page_is_of_its_run_and_names_the_earlier_one(tmp_path: Path) -> None:
    results = tmp_path / "r.json"
    compare(methods="raw,standardization", bootstrap=20, output=results)
    compare(methods="raw,nulling-2", bootstrap=20, output=results)
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    figures, earlier = page.split("Of earlier runs.", maxsplit=1)
    assert "nulling-2" in figures
    assert "standardization" not in figures
    assert "standardization" in earlier
    assert "standardization" not in (tmp_path / "r.figures" / "figures.csv").read_text(encoding="utf-8")


def test_splits_are_never_averaged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, pairs = tmp_path / "run", write_pairs(tmp_path / "mine.tsv", 60)
    main([*FIT, "--max_sentences", "900", "--tasks", f"SAMPLE,{pairs}", "--run_dir", str(run)])
    again = tmp_path / "again"
    words = ["validate", "--quiet", "--ckpt_path", str(run / "checkpoints" / "last.ckpt"), "--run_dir", str(again)]
    main([*words, *FIT[4:], "--max_sentences", "900", "--tasks", f"SAMPLE,{pairs}"])
    rows, record = load_results(again / "results.json")
    assert {row.split for row in rows} == {"dev", "test"}
    for *_, split, _, method, low, high in record["averages"]["wmean"]:
        (row,) = (r for r in rows if (r.split, r.method, r.aggregation) == (split, method, "wmean"))
        assert (low, high) == (row.low, row.high)
    assert len(record["verdicts"]) == 2
    assert record["verdicts"][0] in html.unescape((again / "report.html").read_text(encoding="utf-8"))
    printed = capsys.readouterr().out
    assert all(verdict in printed for verdict in record["verdicts"])


def test_runs_in_folders_with_dots_are_told_apart(tmp_path: Path) -> None:
    for name in ("lr-0.1", "lr-0.2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "metrics.csv").write_text("step,step/loss\n9,1.5\n", encoding="utf-8")
    page = write_report([tmp_path / "lr-0.1", tmp_path / "lr-0.2"], tmp_path / "both.html")
    assert "lr-0.1, lr-0.2" in page.read_text(encoding="utf-8")

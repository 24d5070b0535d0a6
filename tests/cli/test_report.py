"""Pages from the command line: written by fit and evaluate, whole or interrupted, and again by report."""

import json
from pathlib import Path
from typing import Any

import pytest

from flowbert.callbacks import STSEvaluation
from flowbert.cli import main
from flowbert.evaluation.grid import run as run_cells

FIT = ["fit", "--max_sentences", "900", "--trainer.max_epochs", "1", "--trainer.enable_progress_bar", "false"]
FIT += ["--encoder.layers", "first_last", "--data.start_size", "128"]


@pytest.fixture(autouse=True)
def _with_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOWBERT_REPORT", "1")


def test_fit_and_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    main([*FIT, "--run_dir", str(run)])
    assert "report.html" in capsys.readouterr().out
    page = (run / "report.html").read_text(encoding="utf-8")
    assert f"python train.py fit --config {run / 'config.yaml'}" in page
    record = json.loads((run / "results.json").read_text(encoding="utf-8"))["fingerprint"]
    assert record["command"] == " ".join(["python train.py", *FIT, "--run_dir", str(run)])
    (run / "report.html").unlink()
    main(["report", str(run)])
    assert capsys.readouterr().out == f"written: {run / 'report.html'}\n"
    assert (run / "report.html").is_file()


def test_an_interrupted_fit_has_a_page_of_what_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(STSEvaluation, "on_test_epoch_end", interrupt)
    run = tmp_path / "run"
    with pytest.raises(SystemExit) as stopped:
        main([*FIT, "--run_dir", str(run)])
    assert stopped.value.code == 130
    assert not (run / "results.json").exists()
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "This run did not finish" in page
    assert f"--ckpt_path {run / 'checkpoints' / 'last.ckpt'}" in page
    assert (run / "figures" / "training.csv").is_file()
    assert "Traceback" not in capsys.readouterr().err


def test_an_interrupted_evaluation_has_a_page_of_what_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*cells: Any) -> Any:
        found = run_cells(*cells)
        yield next(found)
        raise KeyboardInterrupt

    monkeypatch.setattr("flowbert.evaluation.resumable.run", stopped)
    options = ["evaluate", "--methods", "raw,standardization", "--output", str(tmp_path / "r.json")]
    with pytest.raises(SystemExit):
        main(options)
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "raw" in page
    assert "standardization" not in page.split("How to run this again")[0]
    monkeypatch.setattr("flowbert.evaluation.resumable.run", run_cells)
    main([*options, "--bootstrap", "50"])
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "Use: " in page
    assert "Cosines by gold score" in page


def test_no_pages_where_the_environment_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOWBERT_REPORT", "0")
    main(["evaluate", "--methods", "raw", "--bootstrap", "0", "--output", str(tmp_path / "r.json")])
    assert not list(tmp_path.glob("*.html"))


def test_mistakes_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, message in (
        ([str(tmp_path)], f"error: {tmp_path}: neither results.json nor metrics.csv in it; allowed: "),
        ([str(tmp_path / "x")], "no such folder; allowed: the run folder of a finished `fit`, or a hub name"),
        ([str(tmp_path / "x.json")], "x.json: no such file; allowed: the folder of a fit, its name on the hub, or"),
        ([str(tmp_path), "--output", "x.html"], "error: --output: received x.html; allowed with one run here: nothing"),
    ):
        with pytest.raises(SystemExit):
            main(["report", *words])
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1

"""MTEB's own figures of our models are ours."""

import json
import sys
from pathlib import Path

import pytest
from helpers.processes import run_on

from flowbert import SentenceEncoder, Whitening, evaluate_task, load_task
from flowbert.cli import main
from flowbert.errors import UserError
from flowbert.evaluation.results import load_results
from flowbert.methods.embedder import save_encoder
from flowbert.progress import Step
from flowbert.runs.mteb import LOCAL, mteb


@pytest.fixture(scope="module")
def encoder() -> SentenceEncoder:
    return SentenceEncoder.from_pretrained("builtin-sample", layers="first_last", pooling="mean")


@pytest.fixture(scope="module")
def whitening(encoder: SentenceEncoder) -> Whitening:
    return Whitening().fit(encoder.encode(load_task("SAMPLE").sentences(["dev"])))


@pytest.fixture
def run(encoder: SentenceEncoder, whitening: Whitening, tmp_path: Path) -> Path:
    """A run folder as ``fit`` leaves it."""
    model = tmp_path / "runs" / "first" / "model"
    whitening.save(model / "whitening.safetensors")
    save_encoder(model, encoder)
    return model.parent


@pytest.mark.parametrize("method", ["whitening", "raw"])
def test_the_sample_s_figures_are_ours(
    method: str, run: Path, encoder: SentenceEncoder, whitening: Whitening, tmp_path: Path
) -> None:
    pytest.importorskip("mteb", reason="mteb is not installed")
    transform = whitening.transform if method == "whitening" else None
    expected = evaluate_task(load_task("SAMPLE"), "test", encoder.encode, transform).all
    scores = mteb(run, method=method, output=tmp_path)
    assert scores == pytest.approx({"SAMPLE": expected}, abs=1e-4)
    (file,) = tmp_path.glob("results/*/*/SAMPLE.json")
    assert file.parts[-3] == f"flowbert__runs-first-{method}"
    assert json.loads(file.read_text())["scores"]["test"][0]["cosine_spearman"] == pytest.approx(expected, abs=1e-4)


@pytest.mark.real
@pytest.mark.slow
def test_a_real_figure_is_ours(real: Path, tmp_path: Path) -> None:
    pytest.importorskip("mteb", reason="mteb is not installed")
    senteval, model = real / "data" / "senteval", real / "models" / "minilm-mlm"
    scores = mteb(model, tasks="STSBenchmark", senteval=senteval, output=tmp_path)
    encoder = SentenceEncoder.from_pretrained(str(model))
    ours = evaluate_task(load_task("STSB", senteval), "test", encoder.encode, None).all
    assert scores == pytest.approx({"STSBenchmark": ours}, abs=1e-4)


@pytest.mark.real
@pytest.mark.parametrize("name", LOCAL)
def test_local_data_have_the_pairs_of_mteb(name: str, real: Path) -> None:
    package = pytest.importorskip("mteb", reason="mteb is not installed")
    from flowbert.runs.mteb import load_data

    task = package.get_task(name)
    load_data(task, name, load_task(LOCAL[name], real / "data" / "senteval"))
    assert len(task.dataset["default"]["test"]) == task.metadata.descriptive_stats["test"]["num_samples"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("STSBenchmrk", "received 'STSBenchmrk'; .*Did you mean: 'STSBenchmark'"),
        ("Banking77Classification", "Banking77Classification: its data cannot be fetched .*; allowed offline: STS12"),
    ],
)
def test_a_task_that_cannot_be_had(name: str, message: str, tmp_path: Path) -> None:
    pytest.importorskip("mteb", reason="mteb is not installed")
    with pytest.raises(UserError, match=f"tasks: {message}"):
        mteb("builtin-sample", tasks=name, output=tmp_path)
    assert not list(tmp_path.iterdir())


def test_without_the_package_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "mteb", None)
    with pytest.raises(SystemExit):
        main(["mteb", "builtin-sample"])
    assert "allowed: pip install 'flowbert[mteb]'" in capsys.readouterr().err


def test_the_command_prints_the_scores_and_writes_a_page(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("mteb", reason="mteb is not installed")
    monkeypatch.setenv("FLOWBERT_REPORT", "1")
    main(["mteb", str(run), "--tasks", "SAMPLE", "--output", str(tmp_path)])
    main(["mteb", "builtin-sample", "--tasks", "SAMPLE", "--output", str(tmp_path)])
    rows, _ = load_results(tmp_path / "scores.json")
    assert [(row.encoder, row.method, row.metric) for row in rows] == [
        ("builtin-sample", "raw", "spearman"),
        (str(run), "whitening", "spearman"),
    ]
    page = (tmp_path / "scores.html").read_text(encoding="utf-8")
    assert "builtin-sample, raw: MTEB&#39;s main scores x 100: SAMPLE" in page
    assert "Of earlier runs" not in page
    assert f"{100 * rows[1].value:.2f}" in page
    assert "SAMPLE" in capsys.readouterr().out
    assert list(tmp_path.glob("results/flowbert__builtin-sample/*/SAMPLE.json"))


def test_progress_counts_every_sentence_that_it_asks_for(steps: list[Step], tmp_path: Path) -> None:
    pytest.importorskip("mteb", reason="mteb is not installed")
    main(["mteb", "builtin-sample", "--tasks", "SAMPLE", "--output", str(tmp_path)])
    (evaluating,) = (step for step in steps if step.what == "Evaluating SAMPLE")
    encoded = [step.done for step in steps if step.what == "Encoding"]
    assert evaluating.unit == "sentences"
    assert evaluating.done == sum(encoded) >= len(load_task("SAMPLE").sentences(["test"]))


@pytest.mark.slow
def test_two_processes_share_the_work(run: Path, tmp_path: Path) -> None:
    pytest.importorskip("mteb", reason="mteb is not installed")
    words = ["mteb", str(run), "--method", "whitening", "--output", str(tmp_path / "out")]
    first, other = run_on(2, words, tmp_path)
    assert "SAMPLE" in first
    assert other == ""
    (row,) = load_results(tmp_path / "out" / "scores.json")[0]
    assert row.value == pytest.approx(mteb(run, method="whitening", output=tmp_path / "one")["SAMPLE"], abs=0)

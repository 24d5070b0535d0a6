"""fit, then everything one does with its run folder, on a small part of the sample."""

import csv
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from flowbert import load
from flowbert.cli import main
from flowbert.cli.training import train
from flowbert.errors import FlowbertWarning
from flowbert.evaluation.results import load_results
from flowbert.modules import FlowModule

SMALL = [
    *("--encoder.layers", "first_last"),
    *("--max_sentences", "900"),
    *("--data.start_size", "128"),
    *("--trainer.enable_progress_bar", "false"),
    *("--trainer.val_check_interval", "0.5"),
    *("--trainer.max_epochs", "1"),
]


def fit(run_dir: Path, *options: str) -> Path:
    main(["fit", *SMALL, "--run_dir", str(run_dir), *options])
    return run_dir


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fit(tmp_path_factory.mktemp("fit") / "run", "--log_to", "[tensorboard]")


def metrics(run: Path) -> dict[str, list[float]]:
    columns: dict[str, list[float]] = {}
    with (run / "metrics.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            for name, value in row.items():
                if value:
                    columns.setdefault(name, []).append(float(value))
    return columns


def test_run_folder_holds_everything(run: Path) -> None:
    names = {path.name for path in run.iterdir()}
    assert names >= {"config.yaml", "metrics.csv", "results.json", "checkpoints", "model", "tensorboard"}
    model = {path.name for path in (run / "model").iterdir()}
    scales = {f"{name}.int8" for name in ("raw", "flow", "whitening")}
    assert model == {"encoder.json", "flow.safetensors", "whitening.safetensors"} | scales
    assert yaml.safe_load((run / "config.yaml").read_text())["corpus"] == "target"


def test_results_say_exactly_what_was_done(run: Path) -> None:
    rows, fingerprint = load_results(run / "results.json")
    assert [(row.method, row.aggregation) for row in rows] == [
        (method, aggregation) for method in ("raw", "whitening", "flow") for aggregation in ("all", "mean", "wmean")
    ]
    for row in rows:
        assert (row.encoder, row.layers, row.layer_numbers) == ("builtin-sample", "first_last", (1, 4))
        assert (row.pooling, row.task, row.split) == ("mean", "SAMPLE", "test")
        assert (row.corpus, row.fitted) == (("none", 0) if row.method == "raw" else ("target", 882))
        assert row.seed == (0 if row.method == "flow" else None)
        assert row.pairs == 1000
        assert 0 < row.low < row.spearman < row.high < 1
        assert math.isfinite(row.alignment)
        assert row.uniformity < 0
    assert fingerprint["seed"] == 0
    assert fingerprint["versions"]["torch"] == torch.__version__
    assert len(fingerprint["config_hash"]) == len(fingerprint["corpus_hash"]) == 32


def test_every_validation_logs_likelihood_and_figures_of_each_method(run: Path) -> None:
    columns = metrics(run)
    for split in ("train", "held_out"):
        nll, bits = columns[f"{split}/nll"], columns[f"{split}/bits_per_dim"]
        assert len(nll) == 3  # two validations and the final test
        assert bits == pytest.approx([value / (128 * math.log(2)) for value in nll], rel=1e-5)
    assert columns["held_out/nll"][1] < columns["held_out/nll"][0]
    for method in ("raw", "whitening", "flow"):
        for figure in ("spearman_all", "spearman_mean", "spearman_wmean", "alignment", "uniformity", "mean_cosine"):
            assert len(columns[f"{method}/SAMPLE/dev/{figure}"]) == 2
            assert len(columns[f"{method}/SAMPLE/test/{figure}"]) == 1
    assert len(set(columns["raw/SAMPLE/dev/spearman_all"])) == 1
    assert len(set(columns["whitening/SAMPLE/dev/spearman_all"])) == 1
    assert len(set(columns["flow/SAMPLE/dev/spearman_all"])) == 2


def test_checkpoint_holds_plain_types_and_no_encoder(run: Path) -> None:
    checkpoint: dict[str, Any] = torch.load(run / "checkpoints" / "last.ckpt", weights_only=True)
    assert all(name.startswith("flow.") or name == "noise_std" for name in checkpoint["state_dict"])
    assert any("WhiteningBaseline" in key for key in checkpoint["callbacks"])


def test_test_command_gives_the_same_figures(run: Path, tmp_path: Path) -> None:
    checkpoint = str(run / "checkpoints" / "last.ckpt")
    main(["test", *SMALL, "--ckpt_path", checkpoint, "--run_dir", str(tmp_path / "t")])
    before, _ = load_results(run / "results.json")
    after, _ = load_results(tmp_path / "t" / "results.json")
    assert [row.spearman for row in after] == pytest.approx([row.spearman for row in before], abs=1e-6)


def test_validate_uses_the_development_split(run: Path, tmp_path: Path) -> None:
    checkpoint = str(run / "checkpoints" / "last.ckpt")
    main(["validate", *SMALL, "--ckpt_path", checkpoint, "--run_dir", str(tmp_path / "v")])
    rows, _ = load_results(tmp_path / "v" / "results.json")
    assert {row.split for row in rows} == {"dev"}


def test_predict_writes_the_embeddings_of_a_file(run: Path, tmp_path: Path) -> None:
    corpus = tmp_path / "mine.txt"
    corpus.write_text("a dog runs\nthe cat sleeps\na dog runs\n")
    checkpoint = str(run / "checkpoints" / "last.ckpt")
    options = ["--ckpt_path", checkpoint, "--run_dir", str(tmp_path / "p"), "--data.predict", str(corpus)]
    main(["predict", *SMALL, *options])
    vectors = np.load(tmp_path / "p" / "predictions.npy")
    assert vectors.shape == (3, 128)
    assert np.array_equal(vectors[0], vectors[2])
    expected = load(run).encode(["a dog runs", "the cat sleeps"])
    np.testing.assert_allclose(vectors[:2], expected, atol=1e-4)


def test_evaluate_takes_the_fitted_flow(run: Path, tmp_path: Path) -> None:
    output = tmp_path / "r.json"
    options = ["--encoder.layers", "first_last", "--methods", "raw,flow", "--flow", str(run), "--output", str(output)]
    main(["evaluate", *options])
    fitted = {(row.method, row.aggregation): row for row in load_results(run / "results.json")[0]}
    for row in load_results(output)[0]:
        mine = fitted[row.method, row.aggregation]
        assert (row.spearman, row.low, row.high) == pytest.approx((mine.spearman, mine.low, mine.high), abs=1e-6)


def test_flow_of_other_layers_is_refused(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "r.json"
    for argv in (
        ["evaluate", "--encoder.layers", "last", "--methods", "flow", "--flow", str(run), "--output", str(output)],
        ["test", "--encoder.layers", "last", "--ckpt_path", str(run / "checkpoints" / "last.ckpt")],
    ):
        with pytest.raises(SystemExit) as stopped:
            main(argv)
        assert stopped.value.code == 2
        assert "belongs to another encoder (layers: [1, 4] there, [4] here)" in capsys.readouterr().err
    assert not output.exists()


def test_finished_run_is_not_overwritten(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (run / "results.json").read_bytes()
    with pytest.raises(SystemExit):
        fit(run)
    assert "holds a finished run" in capsys.readouterr().err
    assert (run / "results.json").read_bytes() == before


def test_same_seed_same_figures_other_seed_others(run: Path, tmp_path: Path) -> None:
    again = fit(tmp_path / "again")
    other = fit(tmp_path / "other", "--seed", "1")
    flow = [
        [row.spearman for row in load_results(folder / "results.json")[0] if row.method == "flow"]
        for folder in (run, again, other)
    ]
    assert flow[0] == flow[1]
    assert flow[0] != flow[2]


def test_resumed_run_is_the_uninterrupted_one(tmp_path: Path) -> None:
    constant = ("--model.schedule", "constant")
    whole = fit(tmp_path / "whole", *constant, "--trainer.max_epochs", "2")
    half = fit(tmp_path / "half", *constant)
    checkpoint = half / "checkpoints" / "last.ckpt"
    resumed = fit(tmp_path / "resumed", *constant, "--trainer.max_epochs", "2", "--ckpt_path", str(checkpoint))
    figures = [[row.spearman for row in load_results(run / "results.json")[0]] for run in (whole, half, resumed)]
    assert figures[2] == pytest.approx(figures[0], abs=1e-6)
    assert figures[1] != pytest.approx(figures[0], abs=1e-6)
    assert metrics(resumed)["step/nll"][-1] == pytest.approx(metrics(whole)["step/nll"][-1], rel=1e-5)


def test_a_new_run_in_an_unfinished_folder_keeps_the_earlier_figures(tmp_path: Path) -> None:
    run = fit(tmp_path / "run")
    (run / "results.json").unlink()  # as if it had been interrupted
    before = (run / "metrics.csv").read_text()
    fit(run, "--trainer.max_epochs", "2")
    assert (run / "metrics-1.csv").read_text() == before
    assert (run / "metrics.csv").read_text() != before


def test_saved_config_can_be_used_again(run: Path, tmp_path: Path) -> None:
    checkpoint = str(run / "checkpoints" / "last.ckpt")
    options = ["--config", str(run / "config.yaml"), "--ckpt_path", checkpoint, "--run_dir", str(tmp_path / "t")]
    main(["test", *options])
    rows, fingerprint = load_results(tmp_path / "t" / "results.json")
    before, fitted = load_results(run / "results.json")
    assert [row.spearman for row in rows] == pytest.approx([row.spearman for row in before], abs=1e-6)
    assert fingerprint["config_hash"] == fitted["config_hash"]


def test_checkpoint_says_what_the_maps_were_fitted_on(run: Path, tmp_path: Path) -> None:
    corpus = tmp_path / "other.txt"
    corpus.write_text("a dog runs\nthe cat sleeps\nnobody sings\n")
    checkpoint = str(run / "checkpoints" / "last.ckpt")
    options = ["--ckpt_path", checkpoint, "--run_dir", str(tmp_path / "t"), "--corpus", str(corpus)]
    main(["test", "--encoder.layers", "first_last", *options])
    rows, fingerprint = load_results(tmp_path / "t" / "results.json")
    assert {row.corpus for row in rows if row.method == "flow"} == {"target"}
    assert fingerprint["corpus_hash"] == load_results(run / "results.json")[1]["corpus_hash"]


def test_structure_comes_from_the_checkpoint_and_may_not_differ(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = fit(tmp_path / "run", "--model.levels", "1", "--model.mixing", "reverse")
    checkpoint = str(run / "checkpoints" / "last.ckpt")
    main(["test", *SMALL, "--ckpt_path", checkpoint, "--run_dir", str(tmp_path / "t")])
    before, after = (load_results(folder / "results.json")[0] for folder in (run, tmp_path / "t"))
    assert [row.spearman for row in after] == pytest.approx([row.spearman for row in before], abs=1e-6)
    for argv in (["test", "--model.levels", "3"], ["fit", "--model.depth", "2"]):
        with pytest.raises(SystemExit) as stopped:
            main([*argv, *SMALL, "--ckpt_path", checkpoint, "--run_dir", str(tmp_path / "x")])
        assert stopped.value.code == 2
        assert "allowed with the checkpoint" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


def test_interrupted_fit_can_be_resumed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FlowModule, "on_train_batch_start", _interrupt_at_five, raising=False)
    with pytest.raises(SystemExit) as stopped:
        fit(tmp_path / "run")
    assert stopped.value.code == 130
    assert "interrupted" in capsys.readouterr().err
    assert list((tmp_path / "run" / "checkpoints").glob("*.ckpt"))
    assert not (tmp_path / "run" / "results.json").exists()


def _interrupt_at_five(module: FlowModule, *_: object) -> None:
    if module.global_step == 5:
        raise KeyboardInterrupt


def test_encoder_inside_the_step_gives_the_same_loss(run: Path, tmp_path: Path) -> None:
    inside = fit(tmp_path / "inside", "--data.store", "none")
    memory = fit(tmp_path / "memory", "--data.store", "memory")
    expected = metrics(run)["step/nll"]
    assert metrics(memory)["step/nll"] == pytest.approx(expected, abs=1e-3)
    assert metrics(inside)["step/nll"] == pytest.approx(expected, abs=1e-2)


def test_embedder_loads_each_fitted_map(run: Path) -> None:
    sentences = ["a dog runs", "the cat sleeps"]
    vectors = {method: load(run, method).encode(sentences) for method in ("raw", "whitening", "flow")}
    assert all(value.shape == (2, 128) for value in vectors.values())
    assert not np.allclose(vectors["raw"], vectors["flow"])
    assert json.loads((run / "model" / "encoder.json").read_text())["layers"] == [1, 4]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--model.learning_rate", "0.1"], r"--model.learning_rate: received 0.1; allowed with .*: 0.0005"),
        (["--model.noise", "0.5"], r"--model.noise: received 0.5; allowed with the checkpoint .*: 0.05"),
        (["--seed", "1"], r"--seed: received 1; allowed with the checkpoint .*: 0"),
        (["--corpus", "builtin-sample"], r"fitted on 882 of target, this run on \d+ of builtin-sample; all"),
        (["--data.held_out", "0.1"], r"fitted on 882 of target, this run on \d+ of target; allowed: the same"),
        (["--method", "simcse", "--corpus", "target"], r"is of FlowModule; allowed: one of SimCSEModule"),
    ],
)
def test_a_run_goes_on_with_what_it_began_with(
    options: list[str], message: str, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint = str(run / "checkpoints" / "last.ckpt")
    common = SMALL[:4] if options[0] == "--method" else SMALL
    with pytest.raises(SystemExit) as stopped:
        main(
            [
                "fit",
                *common,
                "--trainer.max_epochs",
                "2",
                *options,
                "--ckpt_path",
                checkpoint,
                "--run_dir",
                str(tmp_path / "x"),
            ]
        )
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert re.search(message, error), error
    assert error.count("\n") == 1
    assert not (tmp_path / "x").exists()


def test_rows_of_another_run_are_not_taken_for_those_before(run: Path, tmp_path: Path) -> None:
    (tmp_path / "other" / "checkpoints").mkdir(parents=True)
    moved = tmp_path / "other" / "checkpoints" / "last.ckpt"
    moved.write_bytes((run / "checkpoints" / "last.ckpt").read_bytes())
    lines = (run / "metrics.csv").read_text().splitlines()
    (tmp_path / "other" / "metrics.csv").write_text("\n".join([*lines[:2], *lines[2:3] * 40]) + "\n")
    epochs = ["fit", *SMALL, "--trainer.max_epochs", "2"]
    with pytest.warns(FlowbertWarning, match=r"does not hold the \d+ rows that were logged before"):
        train([*epochs, "--ckpt_path", str(moved), "--run_dir", str(tmp_path / "run")])
    assert metrics(tmp_path / "run")["step"][0] > metrics(run)["step"][0]


@pytest.mark.filterwarnings("default::flowbert.errors.FlowbertWarning")
def test_maps_of_too_few_sentences_have_no_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "c.txt").write_text("".join(f"sentence number {n} of a dog\n" for n in range(100)))
    options = ["--corpus", str(tmp_path / "c.txt"), "--data.start_size", "64", "--model.noise", "0"]
    run = fit(tmp_path / "run", *options)
    shown = capsys.readouterr()
    assert "warning: a flow of N=98 distinct sentences in D=128 dimensions has no maximal likelihood" in shown.err
    for row in load_results(run / "results.json")[0]:
        assert math.isnan(row.spearman) == (row.method != "raw")
        assert ("N=98 distinct sentences" in row.reason) == (row.method != "raw")
    main(
        [
            "evaluate",
            "--encoder.layers",
            "first_last",
            "--methods",
            "flow",
            "--flow",
            str(run),
            "--output",
            str(tmp_path / "r.json"),
        ]
    )
    assert all(math.isnan(row.spearman) and row.reason for row in load_results(tmp_path / "r.json")[0])

"""Figures go to CSV always, to wandb and TensorBoard when asked."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from pytorch_lightning.loggers import TensorBoardLogger, WandbLogger

from flowbert import load, load_task
from flowbert.cli import main
from flowbert.errors import UserError
from flowbert.evaluation.results import load_results
from flowbert.io.run_folder import RunFolder
from flowbert.runs.loggers import check_log_to, make_loggers
from flowbert.training.metrics_log import MetricsLog


def test_csv_comes_first_and_always(tmp_path: Path) -> None:
    (logger,) = make_loggers([], RunFolder(tmp_path))
    assert isinstance(logger, MetricsLog)
    assert Path(logger.save_dir or "") == tmp_path


def test_tensorboard_when_asked(tmp_path: Path) -> None:
    first, second = make_loggers(["tensorboard"], RunFolder(tmp_path))
    assert isinstance(first, MetricsLog)
    assert isinstance(second, TensorBoardLogger)


@pytest.mark.parametrize("name", ["wandb", "wandb-offline"])
def test_wandb_without_a_key_logs_offline(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("WANDB_MODE")
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "none"))
    _, logger = make_loggers([name], RunFolder(tmp_path))
    assert isinstance(logger, WandbLogger)
    assert logger._offline
    said = capsys.readouterr().err
    assert ("no API key found, logging offline" in said) == (name == "wandb")


def test_wandb_is_not_imported_unless_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    assert len(make_loggers(["tensorboard"], RunFolder(tmp_path))) == 2


def test_unknown_destination() -> None:
    with pytest.raises(UserError, match=r"received 'tensorbord'; .*did you mean 'tensorboard'"):
        check_log_to(["wandb", "tensorbord"])


@pytest.mark.parametrize("names", [["wandb", "wandb-offline"], ["tensorboard", "tensorboard"]])
def test_one_run_each(names: list[str]) -> None:
    with pytest.raises(UserError, match="allowed: wandb or wandb-offline, each name once"):
        check_log_to(names)


def test_a_fit_gives_its_loggers_results_files_maps_and_embeddings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    data = tmp_path / "wandb-data"
    monkeypatch.setenv("WANDB_DATA_DIR", str(data))
    small = ["--config", "quickstart", "--max_sentences", "800", "--recommended", "false", "--trainer.max_epochs", "1"]
    silent = ["--trainer.enable_progress_bar", "false", "--log_to", "[wandb-offline,tensorboard]"]
    run = tmp_path / "run"
    main(["fit", *small, *silent, "--run_dir", str(run)])
    assert "wandb:" not in capfd.readouterr().err

    (record,) = run.glob("wandb/offline-run-*/*.wandb")
    content = record.read_bytes()
    for name in ("results.json", "config.yaml", "metrics.csv", "flow.safetensors", "whitening.safetensors"):
        assert name.encode() in content, name
    copied = [path.read_bytes() for path in data.rglob("*") if path.is_file()]  # beside the run: the table alone
    assert not {path.name for path in run.rglob("*.*") if path.is_file() and path.read_bytes() in copied}
    (file,) = run.glob("wandb/offline-run-*/files/media/table/results_*.table.json")
    table = json.loads(file.read_text())
    rows, _ = load_results(run / "results.json")
    methods, values = (table["columns"].index(name) for name in ("method", "value"))
    assert [(row[methods], row[values]) for row in table["data"]] == [(row.method, row.value) for row in rows]

    shown = {path.parent.name: np.loadtxt(path, delimiter="\t") for path in run.glob("tensorboard/*/*/tensors.tsv")}
    assert {name: points.shape for name, points in shown.items()} == dict.fromkeys(
        ("raw", "whitening", "flow"), (1000, 128)
    )
    whitened = load(run, "whitening").encode(load_task("SAMPLE").sentences(["test"])[:3])
    np.testing.assert_allclose(shown["whitening"][:3], whitened, rtol=1e-3, atol=1e-4)
    assert len((run / "tensorboard/00000/raw/metadata.tsv").read_text().splitlines()) == 1000

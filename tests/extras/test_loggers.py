"""Metrics in wandb and TensorBoard."""

import sys
from typing import Any

import pandas as pd
import pytest
from pytorch_lightning.callbacks import LambdaCallback
from pytorch_lightning.loggers import WandbLogger
from pytorch_lightning.loggers.logger import DummyLogger

from flowbert.extras.loggers import make_named_loggers, wandb_run_ended
from flowbert.fitting import fit


@pytest.mark.parametrize("name", ["wandb", "wandb-offline"])
def test_wandb_without_a_key_is_offline(name, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("WANDB_MODE", "")  # what is written into it is undone
    monkeypatch.delenv("WANDB_MODE")
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "none"))
    (logger,) = make_named_loggers([name], tmp_path)
    assert isinstance(logger, WandbLogger)
    assert logger._offline
    assert ("no API key" in capsys.readouterr().err) == (name == "wandb")


@pytest.fixture
def wandb(tmp_path, monkeypatch):
    """The library without a key; its import takes seconds."""
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "none"))
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("WANDB_SILENT", "true")
    return pytest.importorskip("wandb")


OPTIONS: dict[str, Any] = {"corpus": "builtin-sample", "max_sentences": 300}


def test_a_fit_logs_its_results_also_after_one_that_stopped(wandb, tmp_path):
    """A fit that stops midway leaves no run that the next would write into."""
    run = tmp_path / "run"

    def stop(trainer, *_):
        if trainer.global_step == 3:
            raise KeyboardInterrupt

    callbacks = [LambdaCallback(on_train_batch_end=stop)]
    with pytest.raises(KeyboardInterrupt):
        fit(
            **OPTIONS,
            baseline="none",
            trainer={"max_epochs": 1, "callbacks": callbacks},
            log_to="wandb-offline",
            run_dir=tmp_path / "stopped",
        )
    assert wandb.run is None
    fit(
        **OPTIONS,
        baseline="whitening:shrinkage=0.1",
        trainer={"max_epochs": 1, "enable_progress_bar": False, "accelerator": "cpu"},
        log_to=["wandb", "tensorboard"],
        run_dir=run,
    )
    wandb.teardown()  # its process writes behind run.finish()
    logged = "flow/SAMPLE/dev/spearman_wmean"
    assert pd.read_csv(run / "metrics.csv")[logged].notna().any()
    events = b"".join(file.read_bytes() for file in run.glob("tensorboard/events.*"))
    for method in (logged, "flow/SAMPLE/test", "whitening:shrinkage=0.1/SAMPLE/test"):
        assert method.encode() in events
    (record,) = run.glob("wandb/offline-run-*/*.wandb")
    assert b"whitening:shrinkage=0.1/SAMPLE/test/spearman_wmean" in record.read_bytes()


class Kept(DummyLogger):
    """A logger of the caller."""

    def __init__(self):
        super().__init__()
        self.metrics = {}

    def log_metrics(self, metrics, step=None):
        self.metrics |= metrics


def test_every_logger_gets_the_results_of_a_map_in_closed_form(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)  # not imported
    logger, method = Kept(), "whitening:shrinkage=0.1"
    results = fit(
        method,
        max_sentences=300,
        trainer={"logger": logger},
        log_to="tensorboard",
        run_dir=tmp_path,
    )
    (events,) = tmp_path.glob("tensorboard/events.*")
    for metric, name in (("spearman", "spearman_wmean"), ("alignment", "alignment")):
        logged = f"{method}/SAMPLE/test/{name}"
        assert logger.metrics[logged] == results.score(method, "SAMPLE", metric)
        assert logged.encode() in events.read_bytes()


def test_a_wandb_run_of_the_caller_stays_open(wandb, tmp_path):
    with wandb.init(mode="offline", dir=tmp_path) as run:
        with wandb_run_ended():
            pass
        assert wandb.run is run

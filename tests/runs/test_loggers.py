"""Figures go to CSV always, to wandb and TensorBoard when asked."""

import sys
from pathlib import Path

import pytest
from pytorch_lightning.loggers import TensorBoardLogger, WandbLogger

from flowbert.errors import UserError
from flowbert.io.run_folder import RunFolder
from flowbert.runs.loggers import check_log_to, make_loggers
from flowbert.training import MetricsLog


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

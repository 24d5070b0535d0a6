"""metrics.csv: nothing that a checkpoint counts on is lost, and a resumed run goes on in it."""

import csv
from pathlib import Path

import torch

from flowbert.io.metrics_file import read_metrics
from flowbert.training.metrics_log import MetricsLog


def test_rows_and_new_columns(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path / "run")
    log.log_metrics({"epoch": 0, "step/nll": 0.1}, step=0)
    log.log_metrics({"epoch": 0, "step/nll": float(torch.tensor(0.1))}, step=1)
    assert not log.path.exists()
    log.save()
    assert log.path.read_text() == "epoch,step,step/nll\n0,0,0.1\n0,1,0.10000000149011612\n"
    log.log_metrics({"dev/x": 2.0}, step=1)
    log.save()
    log.save()
    assert log.path.read_text() == "dev/x,epoch,step,step/nll\n,0,0,0.1\n,0,1,0.10000000149011612\n2.0,,1,\n"
    assert log.count == 3
    assert {path.name for path in log.path.parent.iterdir()} == {"metrics.csv"}


def test_many_rows_are_written_without_being_asked(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path)
    for step in range(250):
        log.log_metrics({"a": step}, step=step)
    assert len(read_metrics(log.path)) == 200
    log.finalize("success")
    with log.path.open(newline="") as file:
        assert [int(row["a"]) for row in csv.DictReader(file)] == list(range(250))


def test_a_resumed_log_is_the_uninterrupted_one(tmp_path: Path) -> None:
    def add(log: MetricsLog, steps: range) -> None:
        for step in steps:
            log.log_metrics({"loss": step / 7}, step=step)
            if step % 3 == 2:
                log.log_metrics({"dev": step / 3, "epoch": 1}, step=step)
        log.save()

    whole, first = MetricsLog(tmp_path / "whole"), MetricsLog(tmp_path / "part")
    add(whole, range(10))
    add(first, range(5))
    counted = first.count
    add(first, range(5, 8))  # logged after the checkpoint: it comes again
    with first.path.open("a") as file:
        file.write("0.1,half a ro")  # killed while it wrote
    second = MetricsLog(tmp_path / "part", read_metrics(first.path, counted))
    add(second, range(5, 10))
    assert second.path.read_bytes() == whole.path.read_bytes()


def test_hyper_parameters_are_elsewhere(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path)
    log.log_hyperparams({"a": 1})
    assert list(tmp_path.iterdir()) == []
    assert log.save_dir == str(tmp_path)

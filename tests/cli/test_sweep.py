"""The wandb sweep in the docs: its command runs, its parameters are options, its metric is logged."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from flowbert.cli import main
from flowbert.io.metrics_file import read_metrics

ROOT = Path(__file__).parents[2]


def command(sweep: dict[str, Any], chosen: dict[str, Any]) -> list[str]:
    """What wandb's agent starts, behind `${env} ${interpreter} ${program}`."""
    assert sweep["command"][:3] == ["${env}", "${interpreter}", "${program}"]
    assert sweep["command"][-1] == "${args}"
    return [*sweep["command"][3:-1], *(f"--{name}={value}" for name, value in chosen.items())]


def test_the_sweep_runs_as_the_agent_starts_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = yaml.safe_load((ROOT / "docs" / "sweep.yaml").read_text(encoding="utf-8"))
    assert (ROOT / sweep["program"]).is_file()
    monkeypatch.chdir(ROOT)
    parameters = sweep["parameters"].items()
    chosen = {name: value["values"][-1] if "values" in value else value["max"] for name, value in parameters}
    small = ["--max_sentences=800", "--trainer.max_steps=4", "--trainer.val_check_interval=2", "--recommended=false"]
    main([*command(sweep, chosen), *small, "--trainer.enable_progress_bar=false", f"--run_dir={tmp_path / 'run'}"])
    logged = [row for row in read_metrics(tmp_path / "run" / "metrics.csv") if sweep["metric"]["name"] in row]
    assert len(logged) >= 2
    config = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text(encoding="utf-8"))
    assert config["model"]["noise"] == chosen["model.noise"]
    assert config["seed"] == chosen["seed"]
    assert list((tmp_path / "run" / "wandb").glob("offline-run-*"))

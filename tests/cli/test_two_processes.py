"""Two processes give exactly what one gives, for the store, the statistics and the STS figures."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.numpy import load_file

from flowbert.evaluation import load_results

ROOT = Path(__file__).parents[2]
OPTIONS = ["--encoder.layers", "first_last", "--data.max_sentences", "600", "--trainer.max_epochs", "1"]


def fit(folder: Path, devices: int) -> Path:
    """Fit in processes of their own, with an embedding store of their own."""
    command = [sys.executable, str(ROOT / "train.py"), "fit", *OPTIONS, "--run_dir", str(folder / "run")]
    command += ["--trainer.accelerator", "cpu", "--trainer.devices", str(devices)]
    environment = {**os.environ, "FLOWBERT_CACHE": str(folder / "cache"), "OMP_NUM_THREADS": "1"}
    subprocess.run(command, env=environment, check=True, capture_output=True, timeout=500)
    return folder


@pytest.mark.slow
def test_two_processes_are_one(tmp_path: Path) -> None:
    one, two = fit(tmp_path / "one", 1), fit(tmp_path / "two", 2)
    rows = [load_results(folder / "run" / "results.json")[0] for folder in (one, two)]
    for first, second in zip(*rows, strict=True):
        if first.method != "flow":  # its batches are split between the processes
            assert first == second
    stores = [sorted((folder / "cache").rglob("*.safetensors")) for folder in (one, two)]
    assert [path.name for path in stores[0]] == [path.name for path in stores[1]]
    for paths in zip(*stores, strict=True):
        first_shard, second_shard = (load_file(path) for path in paths)
        assert all((first_shard[name] == second_shard[name]).all() for name in first_shard)
    whitening = [load_file(folder / "run" / "model" / "whitening.safetensors") for folder in (one, two)]
    assert all((whitening[0][name] == whitening[1][name]).all() for name in whitening[0])

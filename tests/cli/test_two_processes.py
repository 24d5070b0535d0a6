"""Two processes give exactly what one gives, for the store, the statistics and the STS figures."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.numpy import load_file

from flowbert.evaluation.results import load_results

ROOT = Path(__file__).parents[2]
FLOW = [
    "--encoder.layers",
    "first_last",
    "--encoder.pooling",
    "idf",
    "--max_sentences",
    "600",
    "--trainer.max_epochs",
    "1",
]
# Without dropout, whose masks differ between processes, the edits make the positives.
SIMCSE = ["--method", "simcse", "--corpus", "builtin-sample", "--data.positive", "crop", "--model.dropout", "0"]
SIMCSE += ["--max_sentences", "256", "--model.learning_rate", "1e-3", "--trainer.max_epochs", "1"]


def fit(folder: Path, devices: int, options: list[str]) -> Path:
    """Fit in processes of their own, with an embedding store of their own."""
    command = [sys.executable, str(ROOT / "train.py"), "fit", *options, "--run_dir", str(folder / "run")]
    command += ["--trainer.accelerator", "cpu", "--trainer.devices", str(devices)]
    environment = {**os.environ, "FLOWBERT_CACHE": str(folder / "cache"), "OMP_NUM_THREADS": "1"}
    subprocess.run(command, env=environment, check=True, capture_output=True, timeout=500)
    return folder


@pytest.mark.slow
def test_two_processes_are_one(tmp_path: Path) -> None:
    one, two = fit(tmp_path / "one", 1, FLOW), fit(tmp_path / "two", 2, FLOW)
    rows = [load_results(folder / "run" / "results.json")[0] for folder in (one, two)]
    for first, second in zip(*rows, strict=True):
        if first.method != "flow":  # its batches are split between the processes
            assert first == second
    stores = [sorted((folder / "cache").rglob("*.shard")) for folder in (one, two)]
    assert [path.name for path in stores[0]] == [path.name for path in stores[1]]
    for paths in zip(*stores, strict=True):
        first_shard, second_shard = (load_file(path) for path in paths)
        assert all((first_shard[name] == second_shard[name]).all() for name in first_shard)
    whitening = [load_file(folder / "run" / "model" / "whitening.safetensors") for folder in (one, two)]
    assert all((whitening[0][name] == whitening[1][name]).all() for name in whitening[0])


@pytest.mark.slow
def test_contrastive_training_on_two_processes_is_that_of_one_with_the_joined_batch(tmp_path: Path) -> None:
    one = fit(tmp_path / "one", 1, [*SIMCSE, "--data.batch_size", "32"])
    two = fit(tmp_path / "two", 2, [*SIMCSE, "--data.batch_size", "16"])
    start = fit(tmp_path / "start", 1, [*SIMCSE, "--data.batch_size", "32", "--model.learning_rate", "1e-12"])
    first, second, before = (load_file(f / "run/model/encoder/model.safetensors") for f in (one, two, start))
    moved = sum(float(((first[name] - before[name]) ** 2).sum()) for name in first) ** 0.5
    apart = sum(float(((first[name] - second[name]) ** 2).sum()) for name in first) ** 0.5
    assert moved > 0.1
    assert apart < 0.01 * moved  # rounding, which Adam blows up where a gradient is almost 0


@pytest.mark.slow
def test_a_flow_on_two_processes_is_that_of_one_with_the_joined_batch(tmp_path: Path) -> None:
    options = [*FLOW, "--model.noise", "0"]  # the noise of a process is its own
    one = fit(tmp_path / "one", 1, [*options, "--data.batch_size", "64"])
    two = fit(tmp_path / "two", 2, [*options, "--data.batch_size", "32"])
    start = fit(tmp_path / "start", 1, [*options, "--data.batch_size", "64", "--model.learning_rate", "1e-12"])
    first, second, before = (load_file(f / "run/model/flow.safetensors") for f in (one, two, start))
    moved = sum(float(((first[name] - before[name]) ** 2).sum()) for name in first if first[name].dtype.kind == "f")
    apart = sum(float(((first[name] - second[name]) ** 2).sum()) for name in first if first[name].dtype.kind == "f")
    assert moved > 0
    assert apart < 1e-6 * moved

"""A run that is killed at any step and resumed is the run that was not: every tensor, logged row and figure."""

import os
import random
import signal
import time
from pathlib import Path

import pytest
from helpers.runs import differences, fit, start

COMMON = [
    *("--trainer.enable_progress_bar", "false"),
    *("--trainer.log_every_n_steps", "2"),
    *("--trainer.val_check_interval", "3"),
    *("--trainer.max_epochs", "2"),
    *("--checkpoint.every_n_steps", "1"),
]
SMALL = ["--max_sentences", "48", "--data.batch_size", "8", "--data.held_out", "0"]
FLOW = ["--encoder.layers", "first_last", "--max_sentences", "700", "--data.start_size", "128"]
METHODS = {
    "flow": FLOW,
    "flow, no store": [*FLOW, "--data.store", "none", "--data.batch_size", "128"],
    "simcse": ["--method", "simcse", "--corpus", "builtin-sample", "--model.mlm_weight", "0.1", *SMALL],
    "simcse, edits": ["--method", "simcse", "--corpus", "builtin-sample", "--data.positive", "crop", *SMALL],
    "sbert": ["--method", "sbert", "--nli", "builtin-sample", *SMALL],
    "mlm": ["--method", "mlm", "--corpus", "builtin-sample", "--model.whole_words", "true", *SMALL],
}
MORE = [pytest.param(*each, marks=pytest.mark.alone) for each in (("flow, no store", 2), ("simcse", 2), ("mlm", 1))]
SLOW = [(method, accumulate) for method in METHODS for accumulate in (1, 2)] * 2


def killed(options: list[str], run: Path, checkpoints: int, delay: float) -> bool:
    """Whether the run was killed ``delay`` seconds after it had written so many checkpoints; else it has ended."""
    process = start(["fit", *options, "--run_dir", str(run)], run.with_suffix(".log"))
    last, seen, count = run / "checkpoints" / "last.ckpt", 0, 0
    while count < checkpoints and process.is_alive():
        if last.exists() and last.stat().st_ino != seen:
            seen, count = last.stat().st_ino, count + 1
        time.sleep(0.001)
    time.sleep(delay)
    if process.pid is not None and process.is_alive():
        os.kill(process.pid, signal.SIGKILL)
    process.join(60)
    return process.exitcode == -signal.SIGKILL


def check(tmp_path: Path, method: str, accumulate: int, seed: int) -> None:
    options = [*METHODS[method], *COMMON, "--trainer.accumulate_grad_batches", str(accumulate)]
    whole, run = tmp_path / "whole", tmp_path / "run"
    fit([*options, "--run_dir", str(whole)], tmp_path / "whole.log")
    rng = random.Random(seed)
    kills = 0
    while not (run / "results.json").exists():
        more = [] if kills == 0 else ["--ckpt_path", str(run / "checkpoints" / "last.ckpt")]
        if kills == 2:  # twice is enough: now it may end
            fit([*options, *more, "--run_dir", str(run)], tmp_path / "end.log")
        else:
            kills += killed([*options, *more], run, rng.randint(1, 4), rng.uniform(0, 0.1))
    assert kills > 0
    assert differences(whole, run) == []


@pytest.mark.parametrize(("method", "accumulate"), [("flow", 1), *MORE])
def test_a_killed_run_goes_on(method: str, accumulate: int, tmp_path: Path) -> None:
    check(tmp_path, method, accumulate, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(SLOW)))
def test_runs_killed_anywhere_go_on(number: int, tmp_path: Path) -> None:
    method, accumulate = SLOW[number]
    check(tmp_path, method, accumulate, seed=number + 1)

"""A user's mistakes: one line that names what was received and what is allowed, exit code 2, nothing written."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from flowbert.cli import main

ROOT = Path(__file__).parents[2]

CASES = {
    "command": (["fti"], r"command: received 'fti'; allowed: fit, .*did you mean 'fit'"),
    "encoder folder": (["fit", "--encoder.path", "/nowhere/x"], r"encoder '/nowhere/x': no such folder"),
    "hub offline": (["fit", "--encoder.path", "some/encoder"], r"encoder 'some/encoder': .*HF_HUB_OFFLINE"),
    "missing file": (["fit", "--corpus", "mising.txt"], r"mising.txt: no such file; .*did you mean 'missing.txt'"),
    "empty file": (["fit", "--corpus", "empty.txt"], r"empty.txt: the file is empty"),
    "binary file": (["fit", "--corpus", "binary.txt"], r"binary.txt:2: binary file.*allowed: UTF-8 text"),
    "column": (["fit", "--corpus", "t.csv", "--column", "c"], r"t.csv:1: no column 'c'; allowed: a, b"),
    "task": (["fit", "--tasks", "STSX", "--senteval", "."], r"'STSX'; allowed: STS12.*did you mean 'STSB'"),
    "task not there": (["fit", "--tasks", "STS16", "--senteval", "."], r"task STS16: no f"),
    "levels": (["fit", "--model.levels", "9"], r"dim 128 .*levels 9.*allowed: levels 1 to 7"),
    "layer": (["fit", "--encoder.layers", "[1,9]"], r"layers: received 9, beyond the encoder.*allowed: 0 .* to 4"),
    "pooling": (["fit", "--encoder.pooling", "men"], r"'men'.*allowed: .*did you mean 'mean'"),
    "finished run": (["fit", "--run_dir", "done"], r"--run_dir: done holds a finished run"),
    "option": (["fit", "--model.levls", "3"], r"unknown option --model.levls \(did you mean --model.levels\?\)"),
    "group": (["fit", "--data.taks", "STSB"], r"unknown option --data.taks \(did you mean --tasks\?\)"),
    "old spelling": (["fit", "--data.task", "STSB"], r"--data.task: no longer an option; it is --tasks now"),
    "type": (["fit", "--model.levels", "x"], r"--model.levels: received x; allowed: a whole number"),
    "noise": (["fit", "--model.noise", "-1"], r"--model.noise: received -1.0; allowed: 0 or more"),
    "schedule": (["fit", "--model.schedule", "cosin"], r"--model.schedule: .*did you mean 'cosine'"),
    "store": (["fit", "--data.store", "dsk"], r"--data.store: received 'dsk'; allowed: .*did you mean 'disk'"),
    "config": (["fit", "--config", "no.yaml"], r"--config: .*no.yaml"),
    "log_to": (["fit", "--log_to", "[wndb]"], r"--log_to: received 'wndb'; .*did you mean 'wandb'"),
    "method": (["fit", "--method", "flwo"], r"--method: received 'flwo'.*did you mean 'flow'"),
    "config option": (["fit", "--config", "typo.yaml"], r"--trainer.max_epoch \(did you mean --trainer.max_epochs"),
    "config group": (["fit", "--config", "group.yaml"], r"group.yaml: data is 5; allowed: a mapping of options"),
    "seed": (["fit", "--seed", "-4"], r"--seed: received -4; allowed: a whole number"),
    "nothing to train": (["fit", "--trainer.max_epochs", "0"], r"--trainer.max_epochs.*received 0, nothing to train"),
    "weight decay": (["fit", "--model.weight_decay", "-1"], r"--model.weight_decay: received -1.0; allowed: 0 or more"),
    "directions": (["fit", "--whitening.n_components", "500"], r"--whitening.n_components: received 500.*1 to 128"),
    "many levels": (["fit", "--model.levels", "20000"], r"cannot be halved 20000 times.*allowed: levels 1 to 7"),
    "store file": (["fit", "--store_dir", "t.csv"], r"--store_dir: t.csv is a file; allowed: a folder"),
    "predict file": (["fit", "--data.predict", "no.txt"], r"no.txt: no such file"),
    "objective": (["fit", "--method", "sbert", "--model.objective", "cosine"], r"--data.source: received 'nli'.*: sts"),
    "half": (["fit", "--method", "mlm", "--trainer.precision", "bf16-true"], r"received bf16-true; allowed .*32-true"),
    "logger": (["fit", "--trainer.logger", "true"], r"--trainer.logger: .*allowed: log_to"),
    "offline first": (["fit", "--encoder.path", "/no/x", "--log_to", "[wandb-offline]"], r"'/no/x': no such folder"),
    "hub option": (["fit", "--corpus", "hub:a/b?splt=x"], r"unknown option 'splt'.*did you mean 'split'"),
    "no checkpoint": (["test"], r"--ckpt_path: received nothing"),
    "missing checkpoint": (["test", "--ckpt_path", "no.ckpt"], r"--ckpt_path: no file no.ckpt"),
    "not a checkpoint": (["test", "--ckpt_path", "binary.txt"], r"binary.txt is not a checkpoint"),
    "accelerator": (["fit", "--trainer.accelerator", "abacus"], r"trainer: .*abacus"),
    "evaluate option": (["evaluate", "--tsks", "STSB"], r"unknown option --tsks \(did you mean --tasks\?\)"),
    "evaluate method": (
        ["evaluate", "--methods", "raw,whitning"],
        r"error: --methods: received 'whitning'; .*did you mean 'whitening'",
    ),
    "evaluate flow": (["evaluate", "--methods", "flow"], r"flow: received none; allowed with method flow: a run"),
    "evaluate split": (["evaluate", "--split", "tset"], r"no split 'tset'.*did you mean 'test'"),
    "evaluate output": (["evaluate", "--output", "x.txt"], r"--output: received 'x.txt'; allowed: .*\.json"),
    "evaluate device": (["evaluate", "--device", "gpu"], r"--device: received 'gpu'; allowed: auto"),
    "evaluate too many": (["evaluate", "--methods", "whitening-129"], r"n_components: received 129; allowed: 1 to 128"),
    "encode both": (["encode", "--output", "v.npy"], r"input, sentences: received both or neither"),
    "encode model": (["encode", "--sentences", "[a]", "--model", "done", "--output", "v.npy"], r"done: no "),
    "encode nothing": (["encode", "--sentences", "[]", "--output", "v.npy"], r"received no sentence"),
    "encode output": (["encode", "--sentences", "[a]", "--output", "v.txt"], r"--output: .*\.npy, .*\.parquet"),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a few things to stumble over."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "missing.txt").write_text("It is another name that is missing.\n")
    (tmp_path / "empty.txt").touch()
    (tmp_path / "binary.txt").write_bytes(b"text\n\x00\x01\n")
    (tmp_path / "typo.yaml").write_text("trainer: {max_epoch: 1}\n")
    (tmp_path / "group.yaml").write_text("data: 5\n")
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    (tmp_path / "done").mkdir()
    (tmp_path / "done" / "results.json").write_text("{}")
    return tmp_path


@pytest.mark.parametrize("case", CASES)
def test_mistake_is_one_clear_line(case: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(folder.rglob("*"))
    argv, pattern = CASES[case]
    with pytest.raises(SystemExit) as stopped:
        main(argv)
    *said, error = capsys.readouterr().err.strip().splitlines()
    assert not said, "what is cheap to check is checked before anything is said or done"
    assert stopped.value.code == 2
    assert error.startswith("error: ")
    assert "Traceback" not in error
    assert re.search(pattern, error), error
    assert sorted(folder.rglob("*")) == before, "something was half-written"


def test_a_reader_that_has_enough_is_no_error() -> None:
    command = f"{shlex.quote(sys.executable)} train.py reproduce --list | head -n 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert done.stdout == "li2020-2-glove-mean\n"
    assert done.stderr == ""

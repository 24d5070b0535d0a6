"""``--quiet``: one word for all commands, no step is shown then; without it every long step is."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import yaml

from flowbert.cli import main
from flowbert.data.sample import sample_corpus, sample_pairs
from flowbert.progress import Step

pytestmark = pytest.mark.filterwarnings("ignore::flowbert.errors.FlowbertWarning")  # small data are no mistake here
FIT = {"Encoding", "Training", "Validating", "Testing", "Fitting whitening", "Evaluating", "Resampling mine"}
# Command -> steps that it must show.
SHOWN: dict[str, set[str]] = {
    "fit": FIT,
    "fit whitening": FIT - {"Training", "Validating"},
    "fit simcse": {"Training", "Testing", "Encoding", "Evaluating"},
    "validate": {"Validating", "Evaluating"},
    "test": {"Testing", "Evaluating"},
    "predict": {"Predicting"},
    "evaluate": {
        "Evaluating",
        "Encoding",
        "Fitting whitening:shrinkage=0.1",
        "Training",
        "Intervals",
        "Resampling mine",
    },
    "evaluate labels": {"Counting tokens", "Fitting learned-removal"},
    "advise": {"Encoding", "Maps", "Resampling"},
    "analyze": {"Encoding", "Fitting", "Training", "Measuring", "Counting tokens", "Drawing"},
    "encode": {"Encoding"},
    "encode vectors": {"Encoding", "Scaling"},
    "export": {"Exporting sentence-transformers"},
    "import": set(),
    "reproduce": set(),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sentences, pairs, vectors, a whitening of others, and the run of a small fit."""
    root = tmp_path_factory.mktemp("quiet")
    (root / "corpus.txt").write_text("\n".join(sample_corpus()[:400]) + "\n", encoding="utf-8")
    for name, split in (("mine", "test"), ("labels", "train")):
        pairs = [f"{a}\t{b}\t{score}" for a, b, score in sample_pairs(split)[:60]]
        text = "\n".join(["sentence1\tsentence2\tscore", *pairs]) + "\n"
        (root / f"{name}.tsv").write_text(text, encoding="utf-8")
    np.save(root / "vectors.npy", np.random.default_rng(0).normal(size=(50, 8)).astype(np.float32))
    np.savez(root / "theirs.npz", kernel=np.eye(128)[:, :32], bias=np.zeros((1, 128)))
    main([*options(root, root)["fit"], "--quiet", "--run_dir", str(root / "run")])
    return root


def options(root: Path, out: Path) -> dict[str, list[str]]:
    """Command lines over the files of a folder that write into another."""
    data = [f"--corpus={root / 'corpus.txt'}", f"--tasks={root / 'mine.tsv'}"]
    fit = ["fit", *data, "--trainer.max_epochs=1", "--trainer.accelerator=cpu"]
    trained = [*data, f"--ckpt_path={root / 'run/checkpoints/last.ckpt'}", f"--run_dir={out / 'again'}"]
    evaluate = ["evaluate", *data, f"--output={out / 'results.json'}", "--bootstrap=20"]
    return {
        "fit": [*fit, f"--run_dir={out / 'flow'}"],
        "fit whitening": [*fit, "--method=whitening", f"--run_dir={out / 'whitening'}"],
        "fit simcse": [*fit, "--method=simcse", "--trainer.max_steps=2", f"--run_dir={out / 'simcse'}"],
        "validate": ["validate", *trained],
        "test": ["test", *trained],
        "predict": ["predict", *trained],
        "evaluate": [*evaluate, "--methods=raw,whitening:shrinkage=0.1,flow:epochs=1"],
        "evaluate labels": [
            *(*evaluate, "--methods=learned-removal-4", f"--labels={root / 'labels.tsv'}", "--encoder.pooling=idf")
        ],
        "advise": ["advise", data[0], f"--output={out / 'advice.yaml'}"],
        "analyze": ["analyze", data[0], "--methods=raw,flow:epochs=1", f"--output={out / 'analysis'}"],
        "encode": ["encode", '--sentences=["a dog runs"]', f"--output={out / 'encoded.npy'}"],
        "encode vectors": [
            *("encode", f"--vectors={root / 'vectors.npy'}", "--precision=int8", f"--output={out / 'mapped.npy'}")
        ],
        "export": ["export", str(root / "run"), f"--to={out / 'exported'}", "--check=false"],
        "import": [
            *("import", f"--from={root / 'theirs.npz'}", f"--run_dir={out / 'theirs'}"),
            *("--encoder.layers=first_last", "--encoder.pooling=mean"),
        ],
        "reproduce": ["reproduce", "--list"],
    }


def said(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [line for line in capsys.readouterr().err.splitlines() if not line.startswith(("note:", "warning:"))]


@pytest.fixture
def run(folder: Path, tmp_path: Path) -> "Run":
    return Run(folder, tmp_path)


class Run:
    """Runs a command of :func:`options`."""

    def __init__(self, folder: Path, out: Path) -> None:
        self.commands = options(folder, out)

    def __call__(self, command: str, *more: str) -> None:
        main([*self.commands[command], *more])


@pytest.mark.parametrize("command", SHOWN)
def test_quiet_shows_nothing(command: str, run: Run, steps: Sequence[Step], capsys: pytest.CaptureFixture[str]) -> None:
    run(command, "--quiet")
    assert not steps
    assert said(capsys) == []


@pytest.mark.parametrize("command", [command for command, shown in SHOWN.items() if shown])
def test_long_steps_are_shown(
    command: str, run: Run, steps: Sequence[Step], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FLOWBERT_CACHE", str(tmp_path / "cache"))
    run(command)
    assert SHOWN[command] <= {step.what for step in steps}
    for step in steps:
        assert step.total is None or step.done == step.total, vars(step)


def test_quiet_in_a_file_and_in_no_run_folder(run: Run, steps: Sequence[Step], tmp_path: Path) -> None:
    (tmp_path / "quiet.yaml").write_text("quiet: true\n", encoding="utf-8")
    run("fit whitening", "--config", str(tmp_path / "quiet.yaml"))
    assert not steps
    assert "quiet" not in yaml.safe_load((tmp_path / "whitening/config.yaml").read_text(encoding="utf-8"))


def test_lightnings_switch(run: Run, steps: Sequence[Step]) -> None:
    run("fit", "--trainer.enable_progress_bar=false")
    assert not {"Training", "Validating", "Testing"} & {step.what for step in steps}

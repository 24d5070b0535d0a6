"""Several processes give what one gives: store, statistics, start, loss, likelihood, figures and files."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.processes import fit_on, free_port, run_on, start_fits, start_on
from safetensors.numpy import load_file

from flowbert.calibration import Whitening
from flowbert.cli import main
from flowbert.cli.main import COMMANDS
from flowbert.data.sample import sample_pairs
from flowbert.data.sts import load_task
from flowbert.evaluation.results import load_results
from flowbert.evaluation.scores import load_items
from flowbert.io.metrics_file import read_metrics
from flowbert.runs.checkpoints import SavedCheckpoint

ROOT = Path(__file__).parents[2]
COMMON = ["--max_sentences", "600", "--trainer.max_epochs", "1", "--trainer.log_every_n_steps", "1"]
# The noise of a process is its own: without it the joined batch is that of one process.
FLOW = [*COMMON, "--encoder.layers", "first_last", "--encoder.pooling", "idf", "--model.noise", "0"]
FLOW += ["--data.held_out", "0.1"]
# Without dropout, whose masks differ between processes, the edits make the positives.
SIMCSE = ["--method", "simcse", "--corpus", "builtin-sample", "--data.positive", "crop", "--model.dropout", "0"]
SIMCSE += [*COMMON, "--max_sentences", "256", "--model.learning_rate", "1e-3"]


def fit_by_launcher(options: list[str], folder: Path) -> Path:
    """A fit as users start it: Lightning starts the second process."""
    command = [sys.executable, str(ROOT / "train.py"), "fit", *options, "--run_dir", str(folder / "run")]
    command += ["--trainer.accelerator", "cpu", "--trainer.devices", "2", "--trainer.strategy", "ddp"]
    environment = {**os.environ, "FLOWBERT_CACHE": str(folder / "cache"), "OMP_NUM_THREADS": "1"}
    subprocess.run(command, env=environment, check=True, capture_output=True, timeout=500)
    return folder / "run"


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def apart(first: Path, second: Path) -> float:
    """Largest difference of two files of tensors."""
    one, two = load_file(first), load_file(second)
    assert one.keys() == two.keys()
    return max(float(abs(one[name].astype("f8") - two[name].astype("f8")).max()) for name in one)


def check_whitening(first: Path, second: Path) -> None:
    """Statistics are equal to 1e-10, and so is the map, but for what its inverse of small eigenvalues makes of it."""
    moments, metrics = [], []
    for path in (first, second):
        fitted = Whitening.load(path)
        assert fitted.moments is not None
        moments.append(fitted.moments)
        weight = fitted.affine_map().weight
        metrics.append(weight @ weight.T)  # directions may differ in their signs
    one, two = moments
    assert (one.count, one.distinct) == (two.count, two.distinct)
    statistics = [(one.mean, two.mean), (one.scatter, two.scatter), (one.third, two.third)]
    for (a, b), tolerance in zip([*statistics, metrics], (1e-10, 1e-10, 1e-10, 1e-8), strict=True):
        assert float((a - b).norm()) < tolerance * float(a.norm())


def check_figures(one: Path, two: Path, tolerance: float) -> None:
    rows = [load_results(run / "results.json")[0] for run in (one, two)]
    for first, second in zip(*rows, strict=True):
        same, other = dict(vars(first)), dict(vars(second))
        for name in ("value", "alignment", "uniformity", "mean_cosine", "low", "high"):
            assert other.pop(name) == pytest.approx(same.pop(name), abs=tolerance, nan_ok=True), name
        subsets = [columns.pop("subsets") for columns in (same, other)]
        assert [subset["pairs"] for subset in subsets[0]] == [subset["pairs"] for subset in subsets[1]]
        assert same == other


@pytest.mark.alone
def test_a_flow_on_two_processes_is_that_of_one_with_the_joined_batch(tmp_path: Path) -> None:
    one = fit_on(1, [*FLOW, "--data.batch_size", "64"], tmp_path / "one")
    two = fit_on(2, [*FLOW, "--data.batch_size", "32"], tmp_path / "two")
    # One process writes: the same files, once.
    assert files(one) == files(two)
    # Each distinct sentence is encoded by one process, to the same bits.
    stores = [sorted((folder.parent / "cache").rglob("*.shard")) for folder in (one, two)]
    assert [path.name for path in stores[0]] == [path.name for path in stores[1]]
    assert all(apart(*pair) == 0 for pair in zip(*stores, strict=True))
    check_whitening(one / "model/whitening.safetensors", two / "model/whitening.safetensors")
    assert apart(one / "model/flow.safetensors", two / "model/flow.safetensors") < 1e-6
    # Losses of every step and likelihoods of every validation are those of the joined batch.
    rows = [read_metrics(run / "metrics.csv") for run in (one, two)]
    assert len(rows[0]) == len(rows[1]) > 8
    for first, second in zip(*rows, strict=True):
        assert first.keys() == second.keys()
        for name, value in first.items():
            assert float(second[name]) == pytest.approx(float(value), rel=1e-5, abs=1e-6, nan_ok=True), name
    check_figures(one, two, 1e-5)


@pytest.mark.alone
def test_contrastive_training_on_two_processes_is_that_of_one_with_the_joined_batch(tmp_path: Path) -> None:
    one = fit_on(1, [*SIMCSE, "--data.batch_size", "32"], tmp_path / "one")
    two = fit_by_launcher([*SIMCSE, "--data.batch_size", "16"], tmp_path / "two")
    start = fit_on(1, [*SIMCSE, "--data.batch_size", "32", "--model.learning_rate", "1e-12"], tmp_path / "start")
    first, second, before = (load_file(run / "model/encoder/model.safetensors") for run in (one, two, start))
    moved = sum(float(((first[name] - before[name]) ** 2).sum()) for name in first) ** 0.5
    apart = sum(float(((first[name] - second[name]) ** 2).sum()) for name in first) ** 0.5
    assert moved > 0.1
    assert apart < 0.01 * moved  # rounding, which Adam blows up where a gradient is almost 0
    assert files(one) == files(two)
    check_figures(one, two, 1e-3)


@pytest.mark.alone
def test_torchrun_starts_them_on_two_machines(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc_per_node", "1"]
    command += ["--master_addr", "127.0.0.1", "--master_port", str(free_port())]
    run = [str(ROOT / "train.py"), "fit", *FLOW, "--run_dir", str(tmp_path / "run"), "--data.store", "memory"]
    run += ["--trainer.accelerator", "cpu", "--trainer.devices", "1", "--trainer.num_nodes", "2"]
    environment = {**os.environ, "FLOWBERT_CACHE": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}
    machines = [
        subprocess.Popen(
            [*command, "--node_rank", str(number), *run],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for number in range(2)
    ]
    said = [machine.communicate(timeout=300)[0] for machine in machines]
    assert [machine.returncode for machine in machines] == [0, 0], "\n".join(said)
    assert (tmp_path / "run" / "results.json").exists()
    assert "fitting on" in said[0]
    assert "fitting on" not in said[1]


@pytest.mark.alone
@pytest.mark.parametrize("victim", [0, 1])
def test_a_process_that_dies_ends_the_other(victim: int, tmp_path: Path) -> None:
    options = [*FLOW, "--trainer.max_epochs", "1000", "--checkpoint.every_n_steps", "3"]
    processes = start_fits(options, tmp_path)
    run = tmp_path / "run"
    wait_for(lambda: (run / "checkpoints" / "last.ckpt").exists() or not all(each.is_alive() for each in processes))
    dead, other = processes[victim], processes[1 - victim]
    assert dead.pid is not None
    os.kill(dead.pid, signal.SIGKILL)
    other.join(60)
    assert other.exitcode == 2
    said = (tmp_path / f"{1 - victim}.log").read_text().strip().splitlines()
    assert said[-1].startswith("error: processes: the connection between them failed (")
    assert not [line for line in said if "Traceback" in line]
    # Nothing is half-written, and the checkpoint is whole: it knows its rows of metrics.csv.
    assert not (run / "results.json").exists()
    assert not (run / "model").exists()
    assert not [name for name in files(run) if Path(name).name.startswith(".")]
    checkpoint = SavedCheckpoint.read(run / "checkpoints" / "last.ckpt")
    assert len(checkpoint.earlier_metrics()) == checkpoint.content["metrics"]["rows"] > 0


def wait_for(there: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not there():
        assert time.monotonic() < end
        time.sleep(0.05)


EVALUATE = ["evaluate", "--encoder.layers", "last,first_last", "--encoder.pooling", "idf", "--bootstrap", "50"]
EVALUATE += ["--methods", "raw,whitening,zca,flow:epochs=0.2", "--flow", "fit", "--seeds", "0,1", "--split", "test,dev"]
EVALUATE += ["--corpus", "target,builtin-sample", "--max_sentences", "300", "--device", "cpu"]


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of two files, and pairs."""
    folder = tmp_path_factory.mktemp("texts")
    sentences = load_task("SAMPLE").sentences(["dev"])
    for number in range(2):
        (folder / f"{number}.txt").write_text("\n".join(sentences[200 * number :][:200]) + "\n")
    lines = [f"{a}\t{b}\t{score}" for a, b, score in sample_pairs("test")[:200]]
    (folder / "pairs.tsv").write_text("\n".join(["sentence1\tsentence2\tscore", *lines]) + "\n")
    return folder


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of one process."""
    folder = tmp_path_factory.mktemp("evaluated")
    run_on(1, [*EVALUATE, "--output", str(folder / "results.json")], folder)
    return folder


def check_evaluation(one: Path, several: Path) -> None:
    """Figures and intervals are equal to the last digit, and so is everything that is kept of them."""
    (rows, record), (others, other) = (load_results(folder / "results.json") for folder in (one, several))
    assert rows == others[: len(rows)]  # behind them may be those of an earlier run
    assert any(row.low < row.high for row in rows)
    for each in (record, other):
        del each["time"], each["command"]
    assert record == other
    for path in (one / "results.scores").iterdir():
        same = several / "results.scores" / path.name
        if path.name.startswith("sample-"):
            assert apart(path, same) == 0
        else:
            found, again = load_items(path), load_items(same)
            assert all(np.array_equal(found[name], again[name], equal_nan=True) for name in found)


@pytest.mark.alone
def test_an_evaluation_on_several_processes_is_that_of_one(evaluated: Path, tmp_path: Path) -> None:
    first, other = run_on(2, [*EVALUATE, "--output", str(tmp_path / "results.json")], tmp_path)
    check_evaluation(evaluated, tmp_path)
    assert [name for name in files(evaluated) if name != "0.log"] == [
        name for name in files(tmp_path) if not name.endswith(".log")
    ]
    assert (evaluated / "results.csv").read_bytes() == (tmp_path / "results.csv").read_bytes()
    assert "written: " in first
    assert not [line for line in other.splitlines() if not line.startswith("warning: ")]
    shards = [sorted((folder / "cache").rglob("*.shard")) for folder in (evaluated, tmp_path)]
    assert all(apart(*pair) == 0 for pair in zip(*shards, strict=True))


@pytest.mark.alone
@pytest.mark.parametrize(("victim", "by", "processes"), [(0, signal.SIGKILL, 4), (1, signal.SIGTERM, 1)])
def test_an_evaluation_goes_on_with_any_number_of_processes(
    victim: int, by: signal.Signals, processes: int, texts: Path, tmp_path: Path
) -> None:
    words = ["evaluate", "--tasks", f"{texts}/pairs.tsv", "--corpus", f"{texts}/*.txt", "--device", "cpu", "--flow"]
    words += ["fit", "--methods", "raw,whitening-8,flow:epochs=0.2", "--seeds", "0,1,2,3", "--bootstrap", "50"]
    run_on(1, [*words, "--output", str(tmp_path / "one" / "results.json")], tmp_path / "one")
    words += ["--output", str(tmp_path / "results.json")]
    running = dict(enumerate(start_on(3, [*words, "--seeds", ",".join(map(str, range(100)))], tmp_path)))
    wait_for(lambda: (tmp_path / "results.json").exists() or not all(each.is_alive() for each in running.values()))
    dead = running.pop(victim)
    assert dead.pid is not None
    os.kill(dead.pid, by)
    for rank, other in running.items():
        other.join(60)
        assert other.exitcode == 2
        said = (tmp_path / f"{rank}.log").read_text().strip().splitlines()
        assert said[-1].startswith("error: processes: the connection between them failed (")
        assert not [line for line in said if "Traceback" in line]
    if by == signal.SIGTERM:
        assert "error: processes: ended by SIGTERM" in (tmp_path / f"{victim}.log").read_text()
    assert not [name for name in files(tmp_path) if Path(name).name.startswith(".")]
    assert load_results(tmp_path / "results.json")[1]["finished"] is False
    (tmp_path / "0.log").unlink()
    assert "figures are in" in run_on(processes, words, tmp_path)[0]
    check_evaluation(tmp_path / "one", tmp_path)


# What a command does on several processes.
TRAINER, SHARED, FIRST = "Lightning's Trainer shares the work", "the work is shared", "the first process works alone"
ON_SEVERAL = {
    **dict.fromkeys(("fit", "validate", "test", "predict"), TRAINER),
    **dict.fromkeys(("evaluate", "advise", "analyze", "mteb", "encode"), SHARED),
    **dict.fromkeys(("reproduce", "curve", "report", "export", "import"), FIRST),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_the_first_process_does_what_is_not_shared(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    called: list[str] = []

    @contextmanager
    def joined() -> Iterator[None]:
        called.append("joined")
        yield

    module, _, function = COMMANDS[command].partition(":")
    monkeypatch.setattr(f"{module}.{function}", lambda _: called.append("called"))
    monkeypatch.setattr("flowbert.processes.joined", joined)
    monkeypatch.setenv("WORLD_SIZE", "2")
    found = []
    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        called.clear()
        main([command])
        found.append(list(called))
    works = {TRAINER: [["called"]] * 2, SHARED: [["joined", "called"]] * 2, FIRST: [["called"], []]}
    assert found == works[ON_SEVERAL[command]]
    assert capsys.readouterr() == ("", "")


@pytest.fixture(scope="module")
def fitted(texts: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run folder of a short fit."""
    options = [
        "--corpus",
        f"{texts}/*.txt",
        "--tasks",
        f"{texts}/pairs.tsv",
        "--trainer.max_epochs",
        "1",
        "--data.store",
        "memory",
    ]
    return fit_on(1, options, tmp_path_factory.mktemp("fitted"))


def words_of(name: str, fitted: Path, texts: Path) -> list[str]:
    """A command that writes into the folder ``OUT``."""
    corpus, checkpoint = f"{texts}/*.txt", str(fitted / "checkpoints" / "last.ckpt")
    measured = ["--corpus", corpus, "--tasks", f"{texts}/pairs.tsv"]
    on_devices = ["--trainer.accelerator", "cpu", "--trainer.devices", "PROCESSES"]
    return {
        "advise": ["advise", "--corpus", corpus, "--output", "OUT/advice.yaml"],
        "analyze": ["analyze", "--corpus", corpus, "--methods", "raw,whitening-16", "--output", "OUT/analysis"],
        "encode": ["encode", "--model", str(fitted), "--input", corpus, "--output", "OUT/vectors/"],
        "encode a file": ["encode", "--model", str(fitted), "--input", corpus, "--output", "OUT/vectors.npy"],
        "predict": ["predict", "--ckpt_path", checkpoint, "--run_dir", "OUT/predicted", *measured, *on_devices],
    }[name]


@pytest.mark.alone
@pytest.mark.parametrize("name", ["advise", "analyze", "encode", "encode a file", "predict"])
def test_a_command_on_two_processes_writes_what_one_writes(
    name: str, fitted: Path, texts: Path, tmp_path: Path
) -> None:
    written = {}
    for processes in (1, 2):
        out = tmp_path / str(processes) / "out"
        words = words_of(name, fitted, texts)
        words = [word.replace("OUT", str(out)).replace("PROCESSES", str(processes)) for word in words]
        first, *others = run_on(processes, words, out.parent)
        assert "written" in first
        assert others == [""] * (processes - 1)
        written[processes] = {file: (out / file).read_bytes() for file in files(out)}
    assert written[1].keys() == written[2].keys()
    for file, content in written[1].items():
        if not file.endswith("config.yaml"):  # with the number of devices
            assert written[2][file] == content, file


@pytest.mark.parametrize("command", ["fit", "predict"])
def test_devices_must_be_as_many_as_the_processes(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trainer = SimpleNamespace(world_size=1)
    monkeypatch.setattr("flowbert.runs.fit.Trainer", lambda **_: trainer)
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setattr("flowbert.cli.training._checkpoint", lambda *_: None)
    with pytest.raises(SystemExit):
        main([command, "--run_dir", str(tmp_path / "run"), "--max_sentences", "300"])
    assert "error: --trainer.devices: received 1 for 2 processes" in capsys.readouterr().err
    assert not (tmp_path / "run" / "metrics.csv").exists()

"""Every shipped config runs as its own first line says, through the real entry point."""

import json
import shlex
import warnings
from pathlib import Path

import pytest
import yaml
from helpers.data import small_task

from flowbert.cli import main
from flowbert.errors import FlowbertWarning

ROOT = Path(__file__).parents[2]
CONFIGS = sorted((ROOT / "configs").rglob("*.yaml"))
SMALL = {
    "fit": [
        "--max_sentences",
        "800",
        "--trainer.max_epochs",
        "1",
        "--trainer.max_steps",
        "20",
        "--trainer.enable_progress_bar",
        "false",
    ],
    "evaluate": ["--corpus", "target"],
}


def test_there_are_configs() -> None:
    assert {path.name for path in CONFIGS} >= {"quickstart.yaml", "flow_target.yaml", "flow_nli.yaml", "whitening.yaml"}


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_config_runs(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first = path.read_text(encoding="utf-8").splitlines()[0]
    command = shlex.split(first.removeprefix("# "))
    assert command[:2] == ["python", "train.py"]
    assert command[-1] == f"configs/{path.relative_to(ROOT / 'configs')}"
    monkeypatch.chdir(ROOT)
    name = command[2]
    if name == "fit":
        target = tmp_path / "run" / "results.json"
        where = ["--run_dir", str(target.parent)]
        if yaml.safe_load(path.read_text(encoding="utf-8")).get("corpus", "target") != "target":
            where += ["--tasks", small_task()]  # the whole sample takes longer than the training
    else:
        target = tmp_path / "results.json"
        where = ["--output", str(target)]
    with warnings.catch_warnings():
        warnings.simplefilter("default", FlowbertWarning)
        main([*command[2:], *SMALL[name], *where])
    warned = "weighs [CLS], which does not show" in capsys.readouterr().err  # the sample's encoder never trained it
    assert warned == ("cls=" in path.read_text(encoding="utf-8"))
    rows = json.loads(target.read_text(encoding="utf-8"))["rows"]
    assert {row["aggregation"] for row in rows} == {"all", "mean", "wmean"}
    assert all(-1 <= row["value"] <= 1 for row in rows)


@pytest.mark.parametrize("words", [["--config", "recommended"], ["-c=recommended"]])
def test_a_config_that_comes_with_flowbert_is_found_by_its_name_anywhere(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recommended").mkdir()  # a folder of that name does not hide it
    expected = yaml.safe_load((ROOT / "configs" / "recommended.yaml").read_text(encoding="utf-8"))
    with pytest.raises(SystemExit):
        main(["fit", *words, "--print_config"])
    assert expected["encoder"].items() <= yaml.safe_load(capsys.readouterr().out)["encoder"].items()
    with pytest.raises(SystemExit):
        main(["fit", *(word.replace("recommended", "recomended") for word in words)])
    assert "did you mean 'recommended' or 'recommended_whitening'?" in capsys.readouterr().err


def test_the_user_s_own_file_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recommended").write_text("seed: 7\n")
    with pytest.raises(SystemExit):
        main(["fit", "--config", "recommended", "--print_config"])
    assert yaml.safe_load(capsys.readouterr().out)["seed"] == 7


@pytest.mark.parametrize("command", ["fit", "evaluate"])
def test_the_command_line_wins_over_files_wherever_they_stand(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    first.write_text("encoder: {layers: last, max_length: 30, pooling: max}\n")
    second.write_text("encoder: {layers: last2, max_length: 40}\n")
    options = ["--encoder.layers", "first_last", "--config", str(first), f"--config={second}", "--print_config"]
    with pytest.raises(SystemExit) as stopped:
        main([command, *options])
    assert stopped.value.code == 0
    encoder = yaml.safe_load(capsys.readouterr().out)["encoder"]
    assert (encoder["layers"], encoder["max_length"], encoder["pooling"]) == ("first_last", 40, "max")

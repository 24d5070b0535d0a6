"""Every command with every option of another one: one clear line, and nothing of Python's own in it."""

import re
from pathlib import Path

import pytest

from flowbert.cli import curve, encode, evaluate, main, reproduce
from flowbert.cli.parser import RENAMED

TOOLS = {
    "evaluate": evaluate.make_parser,
    "reproduce": reproduce.make_parser,
    "curve": curve.make_parser,
    "encode": encode.make_parser,
}
OF_FIT = (
    *("method", "run_dir", "log_to", "ckpt_path", "data", "model", "whitening", "trainer", "data.task", "data.corpus"),
    *("model.levels", "whitening.shrinkage", "trainer.max_epochs", "seed_everything", "table.x", "tasks.x"),
)
PYTHON = re.compile(r"NestedArg|Namespace|NoneType|<class|Traceback|Unable to|\bobject at\b|Subtypes|ValueError")


def options(command: str) -> list[str]:
    return list(TOOLS[command]().get_defaults(skip_validation=True).keys())


EVERY = list(dict.fromkeys([*(name for command in TOOLS for name in options(command)), *OF_FIT]))


def line(argv: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as stopped:
        main(argv)
    assert stopped.value.code == 2
    (error,) = capsys.readouterr().err.strip().splitlines()
    assert error.startswith("error: ")
    assert not PYTHON.search(error), error
    return error


@pytest.mark.parametrize("command", TOOLS)
def test_an_option_of_another_command(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    own = options(command)
    foreign = [name for name in EVERY if name not in own]
    assert len(foreign) > 20
    for number, name in enumerate(foreign):
        expected = f"--{name}: no longer" if RENAMED.get(name) in own else f"unknown option --{name}"
        words = ([f"--{name}", "3"], [f"--{name}=3"], [f"--{name}"])[number % 3]
        assert expected in line([command, *words], capsys)


def test_an_option_of_a_tool_in_fit(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("methods", "data", "model", "trainer", "labels", "data.tasks", "encoder.max_words", "model.levels.x"):
        assert f"unknown option --{name}" in line(["fit", f"--{name}", "3"], capsys)


@pytest.mark.parametrize(
    ("argv", "hint"),
    [
        (["reproduce", "--encoder.max_length", "5"], "--encoder.max_length (did you mean --encoder.path?)"),
        (["evaluate", "--devise", "X"], "--devise (did you mean --device?)"),
        (["evaluate", "--enc.path", "X"], "--enc.path (did you mean --encoder.path?)"),
        (["evaluate", "--task", "STSB"], "--task (did you mean --tasks?)"),
        (["fit", "--model.levls", "2"], "--model.levls (did you mean --model.levels?)"),
        (["fit", "--whitening", "2"], "--whitening (did you mean --whitening.n_components or --whitening.shrinkage?)"),
    ],
)
def test_the_nearest_option_is_named(argv: list[str], hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert f"unknown option {hint}" in line(argv, capsys)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("tsks: STSB", "unknown option --tsks (did you mean --tasks?); --help lists all"),
        ("encoder: {pth: X}", "unknown option --encoder.pth (did you mean --encoder.path?); --help lists all"),
        ("encoder: X", "encoder is 'X'; allowed: a mapping of options"),
        ("data: {task: STSB}", "--data.task: no longer an option; it is --tasks now"),
        ("bootstrap: many", "--bootstrap: received many; allowed: a whole number"),
        ("encoder: {max_length: long}", "--encoder.max_length: received long; allowed: a whole number, null"),
    ],
)
def test_a_config_file_is_named(content: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "c.yaml"
    config.write_text(f"{content}\n")
    assert line(["evaluate", "--config", str(config)], capsys) == f"error: {config}: {message}"


@pytest.mark.parametrize(
    ("content", "message"),
    [("[1, 2]", "holds list; allowed: a mapping of options"), ("a: [", "is not YAML"), (None, "No such file")],
)
def test_a_config_file_that_is_none(
    content: str | None, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "c.yaml"
    if content is not None:
        config.write_text(content)
    error = line(["evaluate", "--config", str(config)], capsys)
    assert error.startswith(f"error: --config: {config}")
    assert message in error


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["evaluate", "--bootstrap", "x"], "--bootstrap: received x; allowed: a whole number"),
        (["evaluate", "--positive_above", "x"], "--positive_above: received x; allowed: a number"),
        (["evaluate", "--tasks"], "--tasks: received nothing; allowed: text, a list, null"),
        (["evaluate", "--tasks", "--device", "cpu"], "--tasks: received nothing; allowed: text, a list, null"),
        (["fit", "--model.levels", "x"], "--model.levels: received x; allowed: a whole number"),
        (["fit", "--trainer.max_epochs=0.5"], "--trainer.max_epochs: received 0.5; allowed: a whole number, null"),
    ],
)
def test_a_value_of_the_wrong_type(argv: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert line(argv, capsys) == f"error: {message}"


INFO_NCE = "flowbert.losses.info_nce.InfoNCE"
A_CLASS = "allowed: the import path of a class, its own options"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--model.loss.x", "1"], "unknown option --model.loss.x (did you mean --model.loss.class_path or "),
        (["--model.loss", INFO_NCE, "--model.loss.init_args.x=1"], "unknown option --model.loss.init_args.x (did you "),
        (["--config", "simcse_sup", "--model.loss.x", "1"], "unknown option --model.loss.x (did you mean "),
        (["--model.loss.temperature", "a"], "--model.loss.temperature: received a; allowed: a number"),
        (["--model.loss", "x"], f"--model.loss: received x; {A_CLASS}"),
        (["--model.loss.class_path", "x"], f"--model.loss.class_path: received x; {A_CLASS}"),
        (["--model.loss.class_path=x", "--model.loss.x=1"], f"--model.loss.class_path: received x; {A_CLASS}"),
        (["--model.loss.class_path", "InfoNCE", "--model.loss.x=1"], f"--model.loss.x: received 1; {A_CLASS}"),
    ],
)
def test_a_loss_and_its_options(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert message in line(["fit", "--method", "simcse", *words], capsys)


def test_a_loss_of_a_config_that_there_is_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "c.yaml"
    config.write_text("model: {loss: {class_path: x, init_args: {temperature: 0.1}}}\n")
    error = line(["fit", "--method", "simcse", "--config", str(config)], capsys)
    assert error == f"error: {config}: --model.loss.class_path: received x; {A_CLASS}"


def test_a_class_of_the_trainer_that_there_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert line(["fit", "--trainer.callbacks", "x"], capsys) == f"error: --trainer.callbacks: received x; {A_CLASS}"


STOPPING = "class_path: pytorch_lightning.callbacks.EarlyStopping"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            f"callbacks: [{{{STOPPING}, init_args: {{monitor: x, patiense: 3}}}}]",
            "unknown option --trainer.callbacks.patiense (did you mean --trainer.callbacks.patience?); allowed: those "
            "of pytorch_lightning.callbacks.EarlyStopping",
        ),
        (
            "callbacks: {class_path: EarlyStopping, init_args: {monitor: x, patience: many}}",
            "--trainer.callbacks.patience: received many; allowed: a whole number",
        ),
        (
            f"callbacks: [{{class_path: LearningRateMonitor}}, {{{STOPPING}}}]",
            "--trainer.callbacks.monitor: received nothing; allowed: text",
        ),
        ("callbacks: [{class_path: EarlyStoping}]", f"--trainer.callbacks: received EarlyStoping; {A_CLASS}"),
        ("callbacks: [{class_path: int}]", f"--trainer.callbacks: received int; {A_CLASS}"),
        (
            "callbacks: {class_path: Timer, init_args: 3}",
            "--trainer.callbacks.init_args: received 3; allowed: a mapping",
        ),
        ("callbacks: [{class_path: broken.Mine}]", "--trainer.callbacks: broken.Mine cannot be imported (no ink)"),
        (
            "logger: {class_path: CSVLogger, init_args: {save_dir: x, nme: y}}",
            "unknown option --trainer.logger.nme (did you mean --trainer.logger.name?); allowed: those of CSVLogger",
        ),
    ],
)
def test_a_mapping_that_names_a_class(
    value: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken.py").write_text("raise ValueError('no ink')\n")
    monkeypatch.syspath_prepend(tmp_path)
    config = tmp_path / "c.yaml"
    config.write_text(f"trainer: {{{value}}}\n")
    assert line(["fit", "--config", str(config)], capsys).startswith(f"error: {config}: {message}")


def test_options_of_another_loss_are_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "c.yaml"
    config.write_text(f"model: {{loss: {{class_path: {INFO_NCE}, init_args: {{temperature: 0.1}}}}}}\n")
    nowhere = ["--encoder.path", "/nowhere/x"]
    for words in (["--config", str(config)], ["--model.loss", "InfoNCE", "--model.loss.temperature", "0.1"]):
        assert "'/nowhere/x': no such folder" in line(["fit", "--method", "simcse", *words, *nowhere], capsys)


def test_classes_of_the_trainer_have_options_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    callback = ["--trainer.callbacks+=EarlyStopping", "--trainer.callbacks.monitor=x", "--trainer.callbacks.patience=2"]
    error = line(["fit", *callback, "--encoder.path", "/nowhere/x"], capsys)
    assert "'/nowhere/x': no such folder" in error

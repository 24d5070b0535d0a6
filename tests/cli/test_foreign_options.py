"""Every command with every option of another one: one clear line, and nothing of Python's own in it."""

import re

import pytest

from flowbert.cli import curve, encode, evaluate, main, reproduce
from flowbert.cli.parser import ToolParser, _options

TOOLS = {
    "evaluate": evaluate.make_parser,
    "reproduce": reproduce.make_parser,
    "curve": curve.make_parser,
    "encode": encode.make_parser,
}
OF_FIT: tuple[str, ...] = ("method", "run_dir", "log_to", "seed", "ckpt_path", "data", "model", "whitening", "trainer")
OF_FIT += ("data.batch_size", "model.head", "model.levels", "whitening.shrinkage", "trainer.max_epochs")
PYTHON = re.compile(r"NestedArg|Namespace|NoneType|<class|Traceback|Unable to|\bobject at\b|Subtypes|ValueError")


def options(parser: ToolParser) -> list[str]:
    return [name.removeprefix("--") for name in _options(parser)]


EVERY = list(dict.fromkeys([*(name for make in TOOLS.values() for name in options(make())), *OF_FIT, "table.x"]))


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
    own = options(TOOLS[command]())
    foreign = [name for name in EVERY if sum(mine.startswith(name) for mine in own) != 1 and name not in own]
    assert len(foreign) > 20
    for name in foreign:
        for words in ([f"--{name}", "3"], [f"--{name}=3"], [f"--{name}"]):
            assert f"unknown option --{name}" in line([command, *words], capsys)


def test_an_option_of_a_tool_in_fit(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("corpus", "tasks", "encoder", "data", "model", "trainer", "labels", "data.tasks", "encoder.sif"):
        assert f"--{name}" in line(["fit", f"--{name}", "3"], capsys)


@pytest.mark.parametrize(
    ("argv", "hint"),
    [
        (["reproduce", "--encoder.path", "X"], "--encoder.path (did you mean --encoder?)"),
        (["reproduce", "--encoder.max_length", "5"], "--encoder.max_length (did you mean --encoder?)"),
        (["evaluate", "--encoder", "X"], "--encoder (did you mean --encoder.path or --encoder.revision?)"),
        (["evaluate", "--data.task", "STSB"], "--data.task (did you mean --tasks?)"),
    ],
)
def test_the_nearest_option_is_named(argv: list[str], hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert f"unknown option {hint}; --help lists all" in line(argv, capsys)

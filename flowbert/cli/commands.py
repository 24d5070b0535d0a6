"""Running a command: its function is called with the options, and its result is printed."""

import os
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from flowbert.cli.command_options import COMMANDS, OF_THE_LINE, TRAINER_COMMANDS
from flowbert.cli.line import CommandLine, program
from flowbert.data.text_files import as_list, user_path
from flowbert.encoders import EncoderOptions
from flowbert.errors import UserError, check_choice, warn
from flowbert.experiments import Results
from flowbert.experiments.next_commands import next_commands
from flowbert.io import as_json
from flowbert.progress import share_console, show_progress, tell
from flowbert.registry import import_custom, import_object
from flowbert.text_tables import print_lines
from flowbert.threads import threads_for, use_threads


def run(line: CommandLine) -> None:
    """Run a command.

    Args:
        line: The command line.

    Raises:
        UserError: For a mistake in the options or files.
    """
    threads = line["threads"]
    show_progress(not line["quiet"])
    share_console()
    with threads_for() if threads is None else use_threads(threads):
        for module in as_list(line["import"] or None, "import"):
            import_custom(module, "import")
        function = import_object(COMMANDS[line.command])
        if line.command in TRAINER_COMMANDS:
            train(function, line)
        elif line["print_config"]:
            print(config_text(line))
        elif line["explain"] is not None:
            explain = import_object("flowbert.extras.papers.published.explain")
            print(explain(line["explain"]))
        else:
            _call(line, function)


def _call(line: CommandLine, function: Callable[..., Any]) -> None:
    """Call a function and print what it returns."""
    command, output = line.command, line["output"]
    if command == "encode" and output is None:
        raise UserError("received nothing; expected a file to write", argument="output")
    arguments = _arguments(line)
    style = arguments.pop("format", "text") if command == "compare" else "text"
    check_choice("format", style, ("text", "markdown", "latex"))
    returned = function(**arguments)
    if style != "text":
        print(getattr(returned, f"to_{style}")())
    elif command == "encode":
        rows, dim = returned
        print(f"{rows} vectors of size {dim} written to {output}")
    elif command in ("report", "export"):
        print(f"written: {returned}")
    else:
        _print_measurements(command, returned, output)


def _print_measurements(command: str, returned: Any, output: str | None) -> None:
    """Print results, an analysis or advice, and write their page."""
    rows = 0
    if isinstance(returned, Results):
        rows = returned.summary.print()
    elif command == "analyze":
        import_object("flowbert.extras.analysis.print_analysis")(returned)
    elif command == "reproduce":
        import_object("flowbert.extras.report.print_reproduction")(returned)
    else:
        print_lines(str(returned).splitlines())
    if output is not None:
        print_lines([f"written: {', '.join([output, *_page(output)])}"])
    elif command != "advise":
        print("nothing was written; --output FILE.json keeps this and writes its page")
    if isinstance(returned, Results):
        _print_next(Path(output or "results.json"), returned)
    if rows > _ON_A_SCREEN:
        print()
        print_lines(returned.verdicts, "bold")


def _print_next(path: Path, results: Results) -> None:
    """Print commands that use what results recommend."""
    commands = next_commands(path, results.about)
    print_lines([f"    {program()} {each}" for each in commands])


def _page(output: str) -> list[str]:
    """Write the page of what a function wrote; empty if pages are switched off."""
    if os.environ.get("FLOWBERT_REPORT") == "0":
        return []
    tell("writing the page")
    try:
        return [str(import_object("flowbert.extras.report.report")(output))]
    # What the command was asked for is on the disk.
    except Exception as error:
        warn(f"no page was written: {error}")
        return []


# Rows of a table after which the verdicts are repeated, as they are far above.
_ON_A_SCREEN = 6


def _nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values by full names as groups, without those that are the command line's alone."""
    nested: dict[str, Any] = {}
    for name, value in values.items():
        group, _, last = name.rpartition(".")
        if name not in OF_THE_LINE:
            (nested.setdefault(group, {}) if group else nested)[last] = value
    return nested


def _arguments(line: CommandLine) -> dict[str, Any]:
    """Arguments of the function of a command."""
    arguments = _nested(line.values)
    if "encoder.path" in line.options:
        arguments["encoder"] = EncoderOptions(**arguments.get("encoder", {}))
    if isinstance(arguments.get("corpus"), list):  # of YAML: names, not sentences
        arguments["corpus"] = {name: name for name in arguments["corpus"]}
    return arguments


def config_text(line: CommandLine, trainer: Mapping[str, Any] | None = None) -> str:
    """The options of a command, with defaults, as the YAML file that repeats it."""
    options = _nested({name: line[name] for name in line.options})
    for name in ("run_dir", "ckpt_path"):
        options.pop(name, None)
    if trainer is not None:
        options["trainer"] = trainer
    text: str = yaml.safe_dump(as_json(options), sort_keys=False, allow_unicode=True)
    return text


def train(function: Callable[..., Any], line: CommandLine) -> None:
    """Fit, or use a checkpoint.

    Args:
        function: ``fit``, ``validate``, ``test`` or ``predict`` of :mod:`flowbert.fitting`.
        line: The command line.

    Raises:
        UserError: For a mistake in the options or files.
    """
    # What only a training imports.
    from lightning_fabric.utilities.rank_zero import rank_zero_only

    from flowbert.cli.trainer_options import read_trainer
    from flowbert.training.run_folder import new_folder

    command = line.command
    options, shown = read_trainer(line.trainer)
    text = config_text(line, shown)
    if line["print_config"]:
        print(text)
        return
    if line["quiet"]:
        options["enable_progress_bar"] = False
    arguments = _arguments(line) | {"trainer": options}
    if command == "fit":
        folder = user_path(line["run_dir"] or new_folder(line["method"]))
        arguments |= {"config": text, "run_dir": folder}
    else:
        folder = user_path(line["run_dir"] or Path(line["run"]) / command)
    try:
        returned = function(**arguments)
    except KeyboardInterrupt as error:
        message = _resume_message(line, folder, str(error))
        raise KeyboardInterrupt(message) from None
    if rank_zero_only.rank != 0:  # type: ignore[attr-defined]
        return
    if isinstance(returned, Results):
        returned.summary.print()
        names = sorted(path.name for path in folder.iterdir())
        print_lines([f"written to {folder}: {', '.join(names)}"])
        _print_next(folder, returned)
    else:
        print(f"written: {returned}")


def _resume_message(line: CommandLine, folder: Path, kept: str) -> str:
    """The message after Ctrl-C: what is kept, and the command that resumes.

    Args:
        line: The command line.
        folder: Its run folder, which an interruption before the training leaves empty.
        kept: The message of the interrupted step, such as what is in the cache.
    """
    last = max(folder.rglob("last.ckpt"), key=os.path.getmtime, default=None)
    if line.command != "fit" or last is None:
        if line["run_dir"] is not None and folder.is_dir() and any(folder.iterdir()):
            return "no checkpoint was written; the same command with another run_dir starts again"
        return kept or "no checkpoint was written; the same command starts again"
    words = ["fit", "--resume", str(folder)]
    if line["threads"] is not None:
        words += ["--threads", str(line["threads"])]
    return f"{last} is kept; resume with: {program()} {shlex.join(words)}"

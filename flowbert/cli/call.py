"""Calls the function of a command with its options, and prints the result."""

import inspect
import os
import re
import shlex
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Union, get_args

import yaml
from docstring_parser.google import parse as parse_docstring

from flowbert.cli.parse import (
    COMMANDS,
    TRAINER_COMMANDS,
    CommandLine,
    LineOptions,
    Option,
    allowed_values,
    nested,
    program,
    similar_options,
)
from flowbert.data.text_files import as_list, user_path
from flowbert.errors import UserError, check_choice
from flowbert.options import TRAINER_DEFAULTS
from flowbert.progress import share_console, show_progress
from flowbert.registry import import_custom, import_object
from flowbert.text_tables import print_lines
from flowbert.threads import threads_for, use_threads


def call_command(line: CommandLine, options: Any) -> None:
    """Call the function of a command and print what it returns.

    Args:
        line: The command line.
        options: The options of its function.

    Raises:
        UserError: For a mistake in the options or files.
    """
    threads = line["threads"]
    show_progress(not line["quiet"])
    share_console()
    with threads_for() if threads is None else use_threads(threads):
        for module in as_list(line["import"] or None, "import"):
            import_custom(module, "import")
        function = import_object(COMMANDS[line.command].function)
        if line.command in TRAINER_COMMANDS:
            train(function, line, options)
        elif line["print_config"]:
            print(config_of_line(line))
        elif line["explain"] is not None:
            explain = import_object("flowbert.extras.papers.published.explain")
            print(explain(line["explain"]))
        else:
            _call(line, function, options)


def _call(line: CommandLine, function: Callable[..., Any], options: Any) -> None:
    """Call a function and print what it returns."""
    command, output = line.command, line["output"]
    if command == "encode" and output is None:
        raise UserError("received nothing; expected a file to write", argument="output")
    style = line["format"] if command == "compare" else "text"
    check_choice("format", style, ("text", "markdown", "latex"))
    begin = time.monotonic()
    returned = function(**vars(options))
    if style != "text":
        print(getattr(returned, f"to_{style}")())
    elif command == "encode":
        rows, dim = returned
        print(f"{rows} vectors of size {dim} written to {output}")
    elif command in ("report", "export"):
        print(f"written: {returned} ({time.monotonic() - begin:.1f} s)")
    else:
        _print_measurements(command, returned, output)


def _print_measurements(command: str, returned: Any, output: str | None) -> None:
    """Print results, an analysis or advice, and write their page."""
    rows = 0
    if command == "compare":
        rows = returned.summary.print()
    elif command == "analyze":
        import_object("flowbert.extras.analysis.print_analysis")(returned)
    elif command == "reproduce":
        import_object("flowbert.extras.report.print_reproduction")(returned)
    else:
        print_lines(str(returned).splitlines())
    if output is not None:
        if command != "compare":
            import_object("flowbert.experiments.results.write_page")(output)
        page = str(Path(output).with_suffix(".html"))
        is_written = os.environ.get("FLOWBERT_REPORT") != "0" and Path(page).is_file()
        print_lines([f"written: {output}{f', {page}' if is_written else ''}"])
    elif command != "advise":
        print("nothing was written; --output FILE.json keeps this and writes its page")
    if command == "compare":
        _print_next(Path(output or "results.json"), returned)
    if rows > _ON_A_SCREEN:
        print()
        print_lines(returned.verdicts, "bold")


def _print_next(path: Path, results: Any) -> None:
    """Print commands that use the recommended method."""
    from flowbert.experiments.commands import next_commands  # slow to import

    commands = next_commands(path, results.about)
    print_lines([f"    {program()} {each}" for each in commands])


# Rows of a table after which the verdicts are repeated, as they are far above.
_ON_A_SCREEN = 6


def config_of_line(line: CommandLine) -> str:
    """All options of a command as YAML, which repeats it."""
    options = nested({name: line[name] for name in line.options}, LineOptions)
    for name in ("run_dir", "ckpt_path", "resume", "explain"):
        options.pop(name, None)
    text: str = yaml.safe_dump(options, sort_keys=False, allow_unicode=True)
    return text


def train(function: Callable[..., Any], line: CommandLine, options: Any) -> None:
    """Fit, or use a checkpoint.

    Args:
        function: ``fit``, ``validate``, ``test`` or ``predict`` of :mod:`flowbert.fitting`.
        line: The command line.
        options: The options of the function.

    Raises:
        UserError: For a mistake in the options or files.
    """
    # What only a training imports.
    from flowbert.fitting.run_options import complete, config_text
    from flowbert.training.run_folder import is_first_process, new_folder

    command = line.command
    is_shown = command == "fit" or line["print_config"]
    trainer = read_trainer(line, defaults=is_shown)
    options = replace(options, trainer=trainer)
    if line["print_config"]:
        print(config_text(complete(options) if command == "fit" else options))
        return
    if command == "fit":
        folder = user_path(line["run_dir"] or new_folder(line["method"]))
    else:
        folder = user_path(line["run_dir"] or Path(line["run"]) / command)
    try:
        returned = function(**vars(replace(options, run_dir=folder)))
    except KeyboardInterrupt as error:
        message = _resume_message(line, folder, str(error))
        raise KeyboardInterrupt(message) from None
    if not is_first_process():
        return
    if hasattr(returned, "about"):  # results
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
        folder: Run folder, which is empty if the training had not started.
        kept: Message of the interrupted step, for example on the cache.
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


def list_trainer_options() -> dict[str, Option]:
    """Options of Lightning's Trainer, by full name."""
    from pytorch_lightning import Trainer

    described = parse_docstring(str(Trainer.__init__.__doc__)).params
    texts = {each.arg_name: each.description or "" for each in described}
    options = {}
    for name, parameter in inspect.signature(Trainer).parameters.items():
        if name != "default_root_dir":
            default = TRAINER_DEFAULTS.get(name, parameter.default)
            text = " ".join(texts.get(name, "").split())
            options[f"trainer.{name}"] = Option((), default, text, "")
    return options


def read_trainer(line: CommandLine, *, defaults: bool) -> dict[str, Any]:
    """Options of the Trainer as YAML values; objects are named by class path.

    Args:
        line: The command line.
        defaults: Whether to include options that are not set.

    Raises:
        UserError: If an option does not exist, or a value is not allowed.
    """
    import jsonargparse
    from pytorch_lightning import Trainer

    known = list_trainer_options()
    for where, name, _ in line.trainer:
        # A class has options of its own, such as trainer.callbacks.patience; + appends.
        if ".".join(name.removesuffix("+").split(".")[:2]) not in known:
            hint = similar_options(list(known), name)
            raise UserError(f"{where}{name}: no such option{hint}; see --help trainer")
    words = [f"--{name}={text}" for _, name, text in line.trainer]
    parser = jsonargparse.ArgumentParser(allow_abbrev=False, exit_on_error=False)
    parser.add_class_arguments(
        Trainer,
        "trainer",
        skip={"default_root_dir"},
        instantiate=False,
        fail_untyped=False,
        sub_configs=True,
    )
    hints = {}
    for action in parser._actions:
        if hasattr(action, "_typehint"):
            action._typehint = whole_numbers_first(action._typehint)
            hints[action.dest] = action._typehint
    parser.set_defaults({f"trainer.{name}": x for name, x in TRAINER_DEFAULTS.items()})
    try:
        parsed = parser.parse_args(words, defaults=defaults)
    except jsonargparse.ArgumentError as error:
        raise _trainer_error(str(error), hints) from error
    text = parser.dump(parsed, skip_none=False, skip_validation=True)
    options: dict[str, Any] = (yaml.safe_load(text) or {}).get("trainer", {})
    return options


def _trainer_error(message: str, hints: Mapping[str, Any]) -> UserError:
    """Rewrite a message of jsonargparse: option, received value, allowed values."""
    found = re.search(r'[Kk]ey "([^"]+)"', message)
    if found is None:
        return UserError(message)
    value = re.findall("Given value: ?(.*)", message)[-1]
    # An option of a class, such as trainer.callbacks.patience, without the class.
    received = re.sub(r"NestedArg\(key='(.*)', val='(.*)'\)", r"\1=\2", value)
    expected = allowed_values(get_args(hints[found[1]]))
    text = f"received {received}; expected {expected}"
    return UserError(text, argument=f"--{found[1]}")


def whole_numbers_first(hint: Any) -> Any:
    """Reorder a union so that 1 means one batch and not 1.0, all batches.

    ``Optional[Union[int, float]]`` has the order of an equal type that was created earlier,
    anywhere.
    """
    parts = list(get_args(hint))
    if not {int, float} <= set(parts):
        return hint
    if parts.index(int) > parts.index(float):
        parts.remove(int)
        parts.insert(parts.index(float), int)
    return Union[tuple(parts)]  # noqa: UP007

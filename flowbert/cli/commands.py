"""Running a command: its function is called with the options, and its result is printed."""

import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jsonargparse import Namespace

from flowbert.cli.line import CommandLine, program
from flowbert.cli.options import COMMANDS, TRAINER_COMMANDS
from flowbert.cli.parser import Parser, make_parser
from flowbert.data.text_files import as_list, user_path
from flowbert.encoders import EncoderOptions
from flowbert.errors import UserError, warn
from flowbert.experiments import Results
from flowbert.experiments.next_commands import next_commands
from flowbert.experiments.result_tables import print_results
from flowbert.progress import show_progress, tell
from flowbert.registry import import_custom, import_object
from flowbert.threads import threads_for, use_threads


def run(line: CommandLine, config: Namespace) -> None:
    """Run a command.

    Args:
        line: The command line.
        config: Its options by name; of a training, those of the Trainer are missing.

    Raises:
        UserError: For a mistake in the options or files.
    """
    options = config.as_dict()
    options.pop("config")
    threads = options.pop("threads", None)
    show_progress(not options.pop("quiet"))
    with threads_for() if threads is None else use_threads(threads):
        for module in as_list(options.pop("import") or None, "import"):
            import_custom(module, "import")
        function = import_object(COMMANDS[line.command])
        if line.command in TRAINER_COMMANDS:
            train(function, line)
        elif options.pop("explain", None) is not None:
            print(
                import_object("flowbert.extras.papers.published.explain")(
                    config.explain
                )
            )
        else:
            _call(line.command, function, options)


def _call(command: str, function: Any, options: dict[str, Any]) -> None:
    """Call a function and print what it returns."""
    output = options.get("output")
    if command == "encode" and output is None:
        raise UserError("received nothing; expected a file to write", argument="output")
    if isinstance(options.get("encoder"), dict):
        options["encoder"] = EncoderOptions(**options["encoder"])
    if isinstance(options.get("corpus"), list):  # of YAML: names, not sentences
        options["corpus"] = {name: name for name in options["corpus"]}
    returned = function(**options)
    if command == "encode":
        rows, dim = returned
        print(f"{rows} vectors of size {dim} written to {output}")
    elif command in ("report", "export"):
        print(f"written: {returned}")
    else:
        _print_measurements(command, returned, output)


def _print_measurements(command: str, returned: Any, output: str | None) -> None:
    """Print results, an analysis or advice, and write their page."""
    if isinstance(returned, Results):
        print_results(returned)
    elif command == "analyze":
        if text := import_object("flowbert.extras.analysis.measure.analysis_text")(
            returned
        ):
            print(text)
    elif command == "reproduce":
        print(import_object("flowbert.extras.report.reproduction_text")(returned))
    else:
        print(returned)
    if output is not None:
        print("written:", ", ".join([output, *_page(returned, output)]))
    elif command != "advise":
        print("nothing was written; --output FILE.json keeps this and writes its page")
    if isinstance(returned, Results) and returned.verdicts:
        print("\n".join(["", *returned.verdicts]))


def _page(returned: Any, output: str) -> list[str]:
    """Write the page of what a function returned and wrote; empty if pages are switched off."""
    if os.environ.get("FLOWBERT_REPORT") == "0":
        return []
    tell("writing the page")
    path = user_path(output).resolve()
    try:
        save_report = import_object("flowbert.extras.report.save_report")
    except ImportError as error:
        warn(f"no page was written: {error}")
        return []
    return [str(save_report(path, returned if isinstance(returned, Results) else None))]


_OF_THE_LINE = ("import", "threads", "quiet", "resume")


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
    from pytorch_lightning import Trainer

    from flowbert.methods import METHODS
    from flowbert.training.checkpoints import CHECKPOINTS, new_folder

    command = line.command
    parser = make_parser(command, line.method, Trainer)
    config = parser.read(line.words)
    arguments = parser.instantiate_classes(
        parser.read(line.words, defaults=False)
    ).as_dict()
    for name in (*_OF_THE_LINE, "config"):
        arguments.pop(name, None)
    if config.quiet and line.method in METHODS:
        arguments.setdefault("trainer", {})["enable_progress_bar"] = False
    if command == "fit":
        arguments["encoder"] = EncoderOptions(**arguments.get("encoder", {}))
        arguments["config"] = _config_text(parser, config)
        folder = user_path(config.run_dir or new_folder(line.method))
        if config.run_dir is None and config.ckpt_path in CHECKPOINTS and config.config:
            folder = Path(str(config.config[-1])).parent
        arguments["run_dir"] = folder
    else:
        folder = user_path(config.run_dir or Path(config.run) / command)
    try:
        returned = function(**arguments)
    except KeyboardInterrupt as error:
        is_named = config.run_dir is not None
        message = _resume_message(command, folder, is_named, config.threads, str(error))
        raise KeyboardInterrupt(message) from None
    if rank_zero_only.rank != 0:  # type: ignore[attr-defined]
        return
    if isinstance(returned, Results):
        if len(returned.frame):
            print_results(returned)
        names = sorted(path.name for path in folder.iterdir())
        print(f"written to {folder}: {', '.join(names)}")
        commands = next_commands(folder, returned.about)
        ending = [*returned.verdicts, *(f"next: {program()} {x}" for x in commands)]
        if ending:
            print("\n".join(["", *ending]))
    else:
        print(f"written: {returned}")


def _resume_message(
    command: str, folder: Path, is_named: bool, threads: int | None, kept: str
) -> str:
    """The message after Ctrl-C: what is kept, and the command that resumes.

    Args:
        command: ``fit``, or one that uses a checkpoint.
        folder: Its run folder, which an interruption before the training leaves empty.
        is_named: Whether the folder is an option of the command.
        threads: Value of ``--threads``.
        kept: The message of the interrupted step, such as what is in the cache.
    """
    last = folder / "checkpoints" / "last.ckpt"
    if command != "fit" or not last.is_file():
        if is_named and folder.is_dir() and any(folder.iterdir()):
            return "no checkpoint was written; the same command with another run_dir starts again"
        return kept or "no checkpoint was written; the same command starts again"
    words = ["fit", "--resume", str(folder)]
    if threads is not None:
        words += ["--threads", str(threads)]
    return f"{last} is kept; resume with: {program()} {shlex.join(words)}"


def _config_text(parser: Parser, config: Namespace) -> str:
    """The options of a fit as the YAML file that repeats it."""
    options = config.clone()
    for name in (*_OF_THE_LINE, "config", "run_dir", "ckpt_path"):
        options.pop(name, None)
    text: str = parser.dump(options, skip_none=False, skip_validation=True)
    return text

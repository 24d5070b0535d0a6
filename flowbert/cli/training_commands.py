"""The commands of training: the Trainer's options, what is printed, and how to resume."""

import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jsonargparse import Namespace
from lightning_fabric.utilities.rank_zero import rank_zero_only
from pytorch_lightning import Trainer

from flowbert.cli.line import CommandLine
from flowbert.cli.parser import Parser, make_parser
from flowbert.encoders import EncoderOptions
from flowbert.experiments import Results
from flowbert.methods import METHODS
from flowbert.reports import next_commands, print_results
from flowbert.training.checkpoints import CHECKPOINTS, new_folder

_OF_THE_LINE = ("import", "threads", "quiet", "resume")


def train(function: Callable[..., Any], line: CommandLine) -> None:
    """Fit, or use a checkpoint.

    Args:
        function: ``fit``, ``validate``, ``test`` or ``predict`` of :mod:`flowbert.fitting`.
        line: The command line.

    Raises:
        UserError: For a mistake in the options or files.
    """
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
        folder = Path(config.run_dir or new_folder(line.method))
        if config.run_dir is None and config.ckpt_path in CHECKPOINTS and config.config:
            folder = Path(str(config.config[-1])).parent
        arguments["run_dir"] = folder
    else:
        folder = Path(config.run_dir or Path(config.run) / command)
    try:
        returned = function(**arguments)
    except KeyboardInterrupt:
        message = _resume_message(command, folder, config.threads)
        raise KeyboardInterrupt(message) from None
    if rank_zero_only.rank != 0:  # type: ignore[attr-defined]
        return
    if isinstance(returned, Results):
        if len(returned.frame):
            print_results(returned)
        names = sorted(path.name for path in folder.iterdir())
        print(f"written to {folder}: {', '.join(names)}")
        commands = next_commands(folder, returned.record)
        ending = [*returned.verdicts, *(f"next: {_program()} {x}" for x in commands)]
        if ending:
            print("\n".join(["", *ending]))
    else:
        print(f"written: {returned}")


def _resume_message(command: str, folder: Path, threads: int | None) -> str:
    """The message after Ctrl-C: the checkpoint on disk, and the command that resumes."""
    last = folder / "checkpoints" / "last.ckpt"
    if command != "fit" or not last.is_file():
        return "no checkpoint was written; the same command with another run_dir starts again"
    words = ["fit", "--resume", str(folder)]
    if threads is not None:
        words += ["--threads", str(threads)]
    return f"{last} is kept; resume with: {_program()} {shlex.join(words)}"


def _program() -> str:
    """The program, as it was called."""
    name = Path(sys.argv[0]).name
    known = {"train.py": "python train.py", "__main__.py": "python -m flowbert"}
    return known.get(name, "flowbert")


def _config_text(parser: Parser, config: Namespace) -> str:
    """The options of a fit as the YAML file that repeats it."""
    options = config.clone()
    for name in (*_OF_THE_LINE, "config", "run_dir", "ckpt_path"):
        options.pop(name, None)
    text: str = parser.dump(options, skip_none=False, skip_validation=True)
    return text

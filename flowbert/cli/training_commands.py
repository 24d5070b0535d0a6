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
from flowbert.cli.options import option_names
from flowbert.cli.parser import Parser, make_parser
from flowbert.encoders import EncoderOptions
from flowbert.experiments import Results
from flowbert.fitting.prepare import method_class
from flowbert.flows import FlowOptions
from flowbert.methods import METHODS
from flowbert.methods.flow import FlowMethod
from flowbert.reports import next_commands, print_results
from flowbert.training.fit_options import FitOptions
from flowbert.training.run_folder import command_folder, find_checkpoint, new_folder
from flowbert.training.unused import is_unused


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
    for name in ("config", "import", "threads", "quiet"):
        arguments.pop(name, None)
    arguments["encoder"] = EncoderOptions(**arguments.get("encoder", {}))
    if config.quiet and line.method in METHODS:
        arguments.setdefault("trainer", {})["enable_progress_bar"] = False
    if arguments.get("ckpt_path") is not None:
        # A run's ``config.yaml`` is in its folder.
        configs = [Path(str(path)).parent for path in config.config or ()]
        folders = [arguments.get("run_dir"), *configs]
        arguments["ckpt_path"] = find_checkpoint(arguments["ckpt_path"], folders)
    folder = arguments.get("run_dir") or new_folder(line.method)
    folder = arguments["run_dir"] = command_folder(
        command, folder, arguments.get("ckpt_path")
    )
    if command == "fit":
        arguments["config"] = _config_text(parser, config, line)
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
    options: dict[str, object] = {
        "--config": folder / "config.yaml",
        "--run_dir": folder,
        "--ckpt_path": "last",
    }
    if threads is not None:
        options["--threads"] = threads
    words = ["fit", *(str(word) for pair in options.items() for word in pair)]
    return f"{last} is kept; resume with: {_program()} {shlex.join(words)}"


def _program() -> str:
    """The program, as it was called."""
    name = Path(sys.argv[0]).name
    known = {"train.py": "python train.py", "__main__.py": "python -m flowbert"}
    return known.get(name, "flowbert")


def _config_text(parser: Parser, config: Namespace, line: CommandLine) -> str:
    """The options of a fit that have an effect, as the YAML file that repeats it."""
    options = config.clone()
    source = FitOptions(
        method=line.method, vectors=config.vectors, corpus=config.corpus
    )
    unused = method_class(line.method).unused(source)
    for name in option_names("fit", line.method):
        if name in options and is_unused(name, unused) is not None:
            options.pop(name)
    for name in ("config", "run_dir", "ckpt_path", "import", "threads", "quiet"):
        options.pop(name, None)
    if line.method == FlowMethod.name:  # its default depends on the initialization
        flow = FlowOptions(**options["model"].as_dict())
        options["model.noise"] = flow.training()["noise"]
    text: str = parser.dump(options, skip_none=False, skip_validation=True)
    return text

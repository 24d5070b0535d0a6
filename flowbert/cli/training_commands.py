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
    made = parser.instantiate_classes(parser.read(line.words, defaults=False)).as_dict()
    for name in ("config", "import", "threads", "quiet"):
        made.pop(name, None)
    made["encoder"] = EncoderOptions(**made.get("encoder", {}))
    if config.quiet and line.method in METHODS:
        made.setdefault("trainer", {})["enable_progress_bar"] = False
    if made.get("ckpt_path") is not None:
        # ``config.yaml`` lies in the folder of its run.
        configs = [Path(str(path)).parent for path in config.config or ()]
        folders = [made.get("run_dir"), *configs]
        made["ckpt_path"] = find_checkpoint(made["ckpt_path"], folders)
    folder = made.get("run_dir") or new_folder(line.method)
    folder = made["run_dir"] = command_folder(command, folder, made.get("ckpt_path"))
    if command == "fit":
        made["config"] = _config_text(parser, config, line)
    try:
        returned = function(**made)
    except KeyboardInterrupt:
        kept = _what_is_kept(command, folder, config.threads)
        raise KeyboardInterrupt(kept) from None
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


def _what_is_kept(command: str, folder: Path, threads: int | None) -> str:
    """After Ctrl-C: what is on the disk, and how to resume."""
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
    """How the command line was called."""
    name = Path(sys.argv[0]).name
    known = {"train.py": "python train.py", "__main__.py": "python -m flowbert"}
    return known.get(name, "flowbert")


def _config_text(parser: Parser, config: Namespace, line: CommandLine) -> str:
    """The options of a fit that have an effect, for ``--config`` of another."""
    options = config.clone()
    given = FitOptions(method=line.method, vectors=config.vectors, corpus=config.corpus)
    unused = method_class(line.method).unused(given)
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

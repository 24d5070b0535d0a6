"""Each command: its function is called with the options, and what it returns is printed."""

import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jsonargparse import Namespace
from lightning_fabric.utilities.rank_zero import rank_zero_only

from flowbert.analysis import Analysis
from flowbert.cli.lookup import METHOD_COMMANDS, CommandLine, option_names
from flowbert.cli.parser import COMMANDS, Parser, load, make_parser
from flowbert.data.text_files import as_list
from flowbert.encoders import EncoderOptions
from flowbert.errors import UserError
from flowbert.experiments import Results
from flowbert.experiments.published import explain
from flowbert.experiments.reproduce import reproduction_text
from flowbert.fitting.prepare import method_class
from flowbert.flows import FlowOptions
from flowbert.methods import METHODS
from flowbert.methods.flow import FlowMethod
from flowbert.progress import show_progress
from flowbert.registry import import_own
from flowbert.reports import (
    analysis_text,
    content_of,
    next_commands,
    page_of,
    print_results,
    report,
    save_page,
)
from flowbert.threads import threads_for, use_threads
from flowbert.training.fit_options import FitOptions
from flowbert.training.run_folder import command_folder, find_checkpoint, new_folder
from flowbert.training.unused import is_unused


def run(command: str, line: CommandLine) -> None:
    """Run a command.

    Args:
        command: Its name.
        line: Its options, see :func:`flowbert.cli.lookup.check`.

    Raises:
        UserError: For a mistake in the options or files.
    """
    function = load(COMMANDS[command])
    parser = make_parser(command, function, line.method)
    config = parser.read(line.words)
    show_progress(not config.pop("quiet"))
    config.pop("threads", None)  # looked up before
    with threads_for() if line.threads is None else use_threads(line.threads):
        _call(command, parser, config, function, line)


def _call(
    command: str,
    parser: Parser,
    config: Namespace,
    function: Callable[..., Any],
    line: CommandLine,
) -> None:
    """Call the function of a command."""
    for module in as_list(config.pop("import") or None, "import"):
        import_own(module, "import")
    if command in METHOD_COMMANDS:
        _train(command, parser, config, function, line)
        return
    options = config.as_dict()
    options.pop("config", None)
    if options.pop("explain", None) is not None:
        print(explain(config.explain))
        return
    if command == "encode" and options["output"] is None:
        raise UserError("received nothing; expected a file to write", argument="output")
    if isinstance(options.get("encoder"), dict):
        options["encoder"] = EncoderOptions(**options["encoder"])
    _print(command, function(**options), options.get("output"))


def _print(command: str, returned: Any, output: str | None) -> None:
    """Print what a function returned, and write its page."""
    if command == "encode":
        rows, dim = returned
        print(f"{rows} vectors of size {dim} written to {output}")
        return
    if isinstance(returned, Results):
        print_results(returned)
    elif command == "analyze":
        if text := analysis_text(returned):
            print(text)
    elif command == "reproduce":
        print(reproduction_text(returned))
    elif command == "advise":
        print(returned)
    else:
        print(f"written: {output if command == 'import_whitening' else returned}")
        if command == "export":
            from flowbert.exports import served_by  # slow to import

            print(f"computed by {served_by(returned)}")
        return
    if output is not None:
        drawn = os.environ.get("FLOWBERT_REPORT") != "0"
        print(f"written: {output}{f', {_page(returned, output)}' if drawn else ''}")
    if isinstance(returned, Results) and returned.verdicts:
        print("\n".join(["", *returned.verdicts]))


def _page(returned: Any, output: str) -> Path:
    """Write the page of what a function returned, or of its file where that is no results."""
    path = Path(output).resolve()
    if isinstance(returned, Results):
        return save_page(content_of(path, returned), page_of(path))
    if isinstance(returned, Analysis):
        content = content_of(path, Results([], {}), returned)
        return save_page(content, page_of(path))
    return report(path)


def _train(
    command: str,
    parser: Parser,
    config: Namespace,
    function: Callable[..., Any],
    line: CommandLine,
) -> None:
    """Fit, or use a checkpoint."""
    made = parser.instantiate_classes(parser.read(line.words, defaults=False)).as_dict()
    made.pop("config", None)
    made.pop("threads", None)
    is_quiet = made.pop("quiet", False)
    made["encoder"] = EncoderOptions(**made.get("encoder", {}))
    if is_quiet and line.method in METHODS:
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
        kept = _what_is_kept(command, folder, line.threads)
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
    for name in ("config", "run_dir", "ckpt_path", "threads"):
        options.pop(name, None)
    if line.method == FlowMethod.name:  # its default depends on the initialization
        flow = FlowOptions(**options["model"].as_dict())
        options["model.noise"] = flow.training()["noise"]
    text: str = parser.dump(options, skip_none=False, skip_validation=True)
    return text

"""A command: its function is called with the options, and what it returns is printed."""

import os
from importlib import import_module
from pathlib import Path
from typing import Any

from jsonargparse import Namespace

from flowbert.cli.line import CommandLine
from flowbert.cli.options import COMMANDS, TRAINER_COMMANDS
from flowbert.data.text_files import as_list
from flowbert.encoders import EncoderOptions
from flowbert.errors import UserError
from flowbert.progress import show_progress
from flowbert.registry import import_custom
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
        function = load(COMMANDS[line.command])
        if line.command in TRAINER_COMMANDS:
            from flowbert.cli.training_commands import train

            train(function, line)
        elif options.pop("explain", None) is not None:
            from flowbert.experiments.published import explain

            print(explain(config.explain))
        else:
            _call(line.command, function, options)


def load(path: str) -> Any:
    """Import a function by its full name."""
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)


def _call(command: str, function: Any, options: dict[str, Any]) -> None:
    """Call a function and print what it returns."""
    output = options.get("output")
    if command == "encode" and output is None:
        raise UserError("received nothing; expected a file to write", argument="output")
    if isinstance(options.get("encoder"), dict):
        options["encoder"] = EncoderOptions(**options["encoder"])
    returned = function(**options)
    if command == "encode":
        rows, dim = returned
        print(f"{rows} vectors of size {dim} written to {output}")
    elif command in ("report", "import_whitening"):
        print(f"written: {output if command == 'import_whitening' else returned}")
    elif command == "export":
        from flowbert.exports import served_by

        print(f"written: {returned}")
        print(f"computed by {served_by(returned)}")
    else:
        _print_measurements(command, returned, output)


def _print_measurements(command: str, returned: Any, output: str | None) -> None:
    """Print results, an analysis or advice, and write their page."""
    from flowbert.experiments import Results
    from flowbert.experiments.reproduce import reproduction_text
    from flowbert.reports import analysis_text, print_results

    if isinstance(returned, Results):
        print_results(returned)
    elif command == "analyze":
        if text := analysis_text(returned):
            print(text)
    elif command == "reproduce":
        print(reproduction_text(returned))
    else:
        print(returned)
    if output is not None:
        drawn = os.environ.get("FLOWBERT_REPORT") != "0"
        print(f"written: {output}{f', {_page(returned, output)}' if drawn else ''}")
    if isinstance(returned, Results) and returned.verdicts:
        print("\n".join(["", *returned.verdicts]))


def _page(returned: Any, output: str) -> Path:
    """Write the page of what a function returned, or of the file that it wrote."""
    from flowbert.analysis import Analysis
    from flowbert.experiments import Results
    from flowbert.reports import content_of, page_of, report, save_page

    path = Path(output).resolve()
    if isinstance(returned, Results):
        return save_page(content_of(path, returned), page_of(path))
    if isinstance(returned, Analysis):
        content = content_of(path, Results([], {}), returned)
        return save_page(content, page_of(path))
    return report(path)

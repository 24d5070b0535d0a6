"""The command line: each command calls a function of the package, and prints what it returns."""

import gc
import os
import shlex
import shutil
import sys
import textwrap
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, replace
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from flowbert import __version__
from flowbert.cli.parse import (
    COMMANDS,
    TRAINER_COMMANDS,
    CommandLine,
    Option,
    known_names,
    program,
    read_line,
    read_options,
)
from flowbert.data.text_files import as_list, user_path
from flowbert.errors import FlowbertWarning, UserError, check_choice, choices
from flowbert.options import config_text
from flowbert.progress import print_warning, share_console, show_progress
from flowbert.quota import available_processors
from flowbert.registry import import_custom, import_object
from flowbert.text_tables import print_lines

SPINS = "3000"
"""Number of times a GNU OpenMP thread polls for work before it sleeps (default: 300,000).

A polling thread occupies a processor that another process may need. A SimCSE step on two
threads: 1.03 of its time alone, 0.4 with two other busy processes.
"""

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS")
_CHANGED = {*_THREADS, "GOMP_SPINCOUNT"}

_HELP = """\
Start here:
  {program} fit --config quickstart
  {program} COMMAND --help

Environment:
  FLOWBERT_CACHE      folder of the embedding cache
  OMP_NUM_THREADS     threads of each computation, as --threads
  FLOWBERT_REPORT=0   write no page
  FLOWBERT_DEBUG=1    show the traceback of an error
"""
_TRAINER_HELP = (
    "Options of Lightning's Trainer, such as --trainer.accelerator, --trainer.devices and "
    "--trainer.precision: {program} {command} --help trainer"
)
_TRAINER = "flowbert.training.trainer_options"
_RED, _PLAIN = "\033[31m", "\033[0m"
# Rows of a table after which the verdicts are repeated, as they are far above.
_ON_A_SCREEN = 6


def main(args: Sequence[str] | None = None) -> None:
    """Run a command.

    Args:
        args: Words of the command line; None for ``sys.argv[1:]``.

    Raises:
        SystemExit: With code 2 after a user error, which is one line on stderr; 130 after Ctrl-C.
    """
    if args is None:
        args = sys.argv[1:]
        sys.path.append(os.getcwd())  # import paths name modules in the current folder
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # closed, as by ``>&-``
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
    if isinstance(sys.stdout, TextIOWrapper):  # that of a terminal may not be UTF-8
        sys.stdout.reconfigure(errors="replace")
    command, *words = list(args) or ["--help"]
    names: list[str] = []
    try:
        if command in ("-h", "--help", "help"):
            print(_list_commands())
        elif command == "--version":
            print(__version__)
        elif command.startswith("--"):
            expected = f"{program()} COMMAND {command}"
            message = f"received before the command; expected {expected}"
            raise UserError(message, argument=command)
        else:
            check_choice("command", command, COMMANDS)
            with warnings.catch_warnings():
                warnings.simplefilter("once", FlowbertWarning)
                warnings.showwarning = _show_warning  # type: ignore[assignment]
                line = read_line(command, words)
                names = line.names
                _run(line)
        sys.stdout.flush()
    except UserError as error:
        _fail(_name_option(error, names))
    except BrokenPipeError:
        # The reader of the output, such as head, has ended; a flush at exit must not fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        cause = f"{error.filename}: {error.strerror}"
        _fail(cause if error.filename else str(error))
    except KeyboardInterrupt as error:
        kept = str(error) or "the same command starts again"
        print(f"interrupted: {kept}", file=sys.stderr)
        raise SystemExit(130) from None


@contextmanager
def environment_of_threads(threads: int | None) -> Iterator[None]:
    """Context with environment variables for the threads of libraries and child processes.

    Libraries read them when they are imported. Torch, MKL, OpenBLAS and pyarrow follow
    ``OMP_NUM_THREADS``; the tokenizers follow quotas by themselves, OpenBLAS does not.

    Args:
        threads: Number of threads of each computation; None for the defaults of the libraries.
    """
    before = {name: os.environ[name] for name in _CHANGED & set(os.environ)}
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS)
    if "OMP_NUM_THREADS" not in os.environ:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", str(available_processors()))
    if threads is not None:
        os.environ.update(dict.fromkeys(_THREADS, str(threads)))
    try:
        yield
    finally:
        for name in _CHANGED:
            os.environ.pop(name, None)
        os.environ.update(before)


def _run(line: CommandLine) -> None:
    """Print the help of a command, or import the computing modules and call its function."""
    if line["help"] is not None:
        print(_describe_command(line))
        return
    options = read_options(line)
    threads, allowed = line["threads"], available_processors()
    if threads is not None and not 1 <= threads <= allowed:
        raise UserError(
            argument="threads",
            received=threads,
            expected=f"a whole number from 1 to {allowed}, the number of processors",
        )
    show_progress(not line["quiet"])
    share_console()
    with environment_of_threads(threads):
        # The objects of imported libraries stay: a search among them every 700 takes 0.7 s.
        gc.set_threshold(10_000)
        from flowbert.threads import threads_for, use_threads  # imports torch

        with threads_for() if threads is None else use_threads(threads):
            for module in as_list(line["import"] or None, "import"):
                import_custom(module, "import")
            _call(line, options)


def _call(line: CommandLine, options: Any) -> None:
    """Call the function of a command, or print what was asked for in its place."""
    command = line.command
    if command in TRAINER_COMMANDS:
        read = import_object(f"{_TRAINER}.read_trainer_options")
        is_shown = command == "fit" or line["print_config"]
        options = replace(options, trainer=read(line.trainer, defaults=is_shown))
    if line["print_config"]:
        if command == "fit":
            options = import_object("flowbert.fitting.run_options.complete")(options)
        print(config_text(options))
    elif line["explain"] is not None:
        explain = import_object("flowbert.extras.papers.published.explain")
        print(explain(line["explain"]))
    else:
        function = import_object(COMMANDS[command].function)
        call = _train if command in TRAINER_COMMANDS else _call_and_print
        call(function, line, options)


def _call_and_print(
    function: Callable[..., Any], line: CommandLine, options: Any
) -> None:
    """Call a function without training, and print what it returns."""
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
        if command == "export":
            print(f"how to load it: {returned / 'README.md'}")
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
    from flowbert.experiments.commands import next_commands

    commands = next_commands(path, results.about)
    print_lines([f"    {program()} {each}" for each in commands])


def _train(function: Callable[..., Any], line: CommandLine, options: Any) -> None:
    """Fit, or use a checkpoint, and print the results."""
    from flowbert.training.run_folder import is_first_process, new_folder

    folder = line["run_dir"]
    if folder is None and line.command == "fit":
        folder = new_folder(line["method"])
    folder = user_path(folder or f"{line['run']}/{line.command}")
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
        return kept or "no checkpoint was written; the same command starts again"
    words = ["fit", "--resume", str(folder)]
    if line["threads"] is not None:
        words += ["--threads", str(line["threads"])]
    return f"{last} is kept; resume with: {program()} {shlex.join(words)}"


def _list_commands() -> str:
    """The help of the program: its commands, in two groups."""
    commands = {name: _wrap(_summary(name), f"  {name}", 14) for name in COMMANDS}
    trained = [commands.pop(name) for name in TRAINER_COMMANDS]
    return "\n".join(
        [
            _wrap(
                f"flowbert {__version__}: sentence embeddings from frozen language models, without "
                "labels"
            ),
            "",
            f"usage: {program()} COMMAND [options]",
            "",
            "Training with PyTorch Lightning (device: --trainer.accelerator):",
            *trained,
            "",
            "Without training:",
            *commands.values(),
            "",
            _HELP.format(program=program()),
        ]
    )


def _summary(command: str) -> str:
    """Description of a command: the first line of the docstring of its options."""
    document = str(COMMANDS[command].options.__doc__)
    return document.partition("\n")[0]


def _describe_command(line: CommandLine) -> str:
    """The help of a command, or of a group of its options."""
    name, options, group = line.command, line.options, f"{line['help']}."
    command = COMMANDS[name]
    if name in TRAINER_COMMANDS and group == "trainer.":
        listed = import_object(f"{_TRAINER}.list_trainer_options")()
        options = {
            name: Option((), x.default, x.description, "") for name, x in listed.items()
        }
    elif members := {x: options[x] for x in options if x.startswith(group)}:
        options = members
    elif line["help"]:
        groups = {x.rpartition(".")[0] for x in known_names(name, options)} - {""}
        expected = choices(sorted(groups), line["help"]) or "no group"
        raise UserError(argument="help", received=line["help"], expected=expected)
    usage = f"usage: {program()} {name} {command.positional.upper()} [options]"
    parts = [" ".join(usage.split()), "", _wrap(_summary(name))]
    for title, entries in _describe_options(options, name).items():
        parts += ["", f"{title}:", *entries]
    if options is not line.options:
        return "\n".join(parts)
    if name in TRAINER_COMMANDS:
        parts += ["", _wrap(_TRAINER_HELP.format(program=program(), command=name))]
    examples = [f"  {program()} {name} {words}" for words in command.examples]
    return "\n".join([*parts, "", "examples:", *examples])


def _describe_options(options: dict[str, Option], command: str) -> dict[str, list[str]]:
    """Help of options by the titles of their groups."""
    groups: dict[str, list[str]] = {"positional arguments": [], "options": []}
    indent = min(30, 6 + max(map(len, options)))
    for name, option in options.items():
        title, shown = name.rpartition(".")[0], f"  --{name}"
        if name == COMMANDS[command].positional:
            title, shown = "positional arguments", f"  {name}"
        elif not title:
            own = option.title == _summary(command)
            title = "options" if own else option.title.rstrip(".").lower()
        entry = _wrap(_describe(option), shown, indent)
        groups.setdefault(title, []).append(entry)
    return {title: entries for title, entries in groups.items() if entries}


def _describe(option: Option) -> str:
    text, default = option.description.replace("``", ""), option.default
    if default is MISSING:
        return f"{text} (required)"
    if default in (None, "", ()) or default is False:
        return text
    return f"{text} (default: {default})"


def _wrap(text: str, start: str = "", indent: int = 0) -> str:
    """Wrap text to the width of the terminal, after the beginning of the first line."""
    return textwrap.fill(
        text,
        min(shutil.get_terminal_size().columns, 120),
        initial_indent=f"{start} ".ljust(indent) if start else "",
        subsequent_indent=" " * indent,
        break_on_hyphens=False,
    )


def _name_option(error: UserError, names: Sequence[str]) -> str:
    """Replace the argument in the message of an error by its option."""
    message = str(error)
    argument = error.argument
    if argument is None:
        return message
    # If two options end in the same name, the one on the command line is meant.
    endings = [name for name in names if name.endswith(f".{argument}")]
    # ``method`` of a fit is one of ``methods``.
    for name in [argument, *endings, argument.removesuffix("s")]:
        if name in names or any(each.startswith(f"{name}.") for each in names):
            return f"--{name}{message.removeprefix(argument)}"
    return message


def _fail(message: str) -> None:
    if os.environ.get("FLOWBERT_DEBUG") == "1":
        traceback.print_exc()
    is_colored = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    label = f"{_RED}error:{_PLAIN}" if is_colored else "error:"
    print(label, " ".join(message.split()), file=sys.stderr)
    raise SystemExit(2) from None


def _show_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: Any
) -> None:
    """Print a warning; for other packages, with file and line."""
    place = "" if issubclass(category, FlowbertWarning) else f"{filename}:{lineno}: "
    print_warning(f"warning: {place}{' '.join(str(message).split())}")

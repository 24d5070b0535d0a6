"""The command line: each command calls a function of the package with its options."""

import gc
import os
import re
import shutil
import sys
import textwrap
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import MISSING
from io import TextIOWrapper
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
from flowbert.errors import FlowbertWarning, UserError, check_choice, choices
from flowbert.numbers import is_count
from flowbert.progress import print_warning
from flowbert.quota import available_processors

SPINS = "3000"
"""Number of times a GNU OpenMP thread polls for work before it sleeps (default: 300,000).

A polling thread occupies a processor that another process may need. A SimCSE step on two
threads: 1.03 of its time alone, 0.4 with two other busy processes.
"""

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
_ONLY_IN_PYTHON = re.compile(
    r"; in Python .*?(?=\.(?:\s|$)|;)| In Python .*?\.(?=\s|$)"
)
_RED, _PLAIN = "\033[31m", "\033[0m"


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
    before = dict(os.environ)
    if "OMP_WAIT_POLICY" not in before:
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS)
    if "OMP_NUM_THREADS" not in before:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", str(available_processors()))
    if threads is not None:
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS"):
            os.environ[name] = str(threads)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _run(line: CommandLine) -> None:
    """Import the computing modules and call the function of a command."""
    if line["help"] is not None:
        print(_describe_command(line))
        return
    options = read_options(line)
    threads, allowed = line["threads"], available_processors()
    if threads is not None and not is_count(threads, 1, allowed):
        raise UserError(
            argument="threads",
            received=threads,
            expected=f"a whole number from 1 to {allowed}, the number of processors",
        )
    with environment_of_threads(threads):
        # The objects of imported libraries stay: a search among them every 700 takes 0.7 s.
        gc.set_threshold(10_000)
        from flowbert.cli.call import call_command

        call_command(line, options)


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
    return option_help(document.partition("\n")[0])


def _describe_command(line: CommandLine) -> str:
    """The help of a command, or of a group of its options."""
    name, options, group = line.command, line.options, f"{line['help']}."
    command = COMMANDS[name]
    if name in TRAINER_COMMANDS and group == "trainer.":
        from flowbert.cli.call import list_trainer_options

        options = list_trainer_options()
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
            own = option_help(option.title) == _summary(command)
            title = "options" if own else option.title.rstrip(".").lower()
        entry = _wrap(_describe(option), shown, indent)
        groups.setdefault(title, []).append(entry)
    return {title: entries for title, entries in groups.items() if entries}


def _describe(option: Option) -> str:
    text, default = option_help(option.description), option.default
    if default is MISSING:
        return f"{text} (required)"
    if default in (None, "", ()) or default is False:
        return text
    return f"{text} (default: {default})"


def option_help(text: str) -> str:
    """Make the help of an option from the description of an argument.

    Markup is removed, and so is everything from "in Python" to the end of a sentence.

    Example:
        >>> option_help("Rows; in Python an array, too, see :func:`flowbert.fit`. None for all.")
        'Rows. Without it, all.'
    """
    text = _ONLY_IN_PYTHON.sub("", text).replace("``", "")
    text = re.sub(r":\w+:`~?([^`]*)`", r"\1", text)
    text = re.sub(r"(^|\. )None for ", r"\1Without it, ", text)
    return text.replace("None for ", "without it, ")


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

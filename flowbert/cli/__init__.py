"""The command line: every command is a function of the package with its parameters as options."""

import gc
import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from typing import Any

from flowbert import __version__
from flowbert.cli.command_options import (
    COMMANDS,
    TRAINER_COMMANDS,
    summary,
)
from flowbert.cli.help import help_text
from flowbert.cli.line import CommandLine, read_line
from flowbert.errors import FlowbertWarning, UserError, check_choice
from flowbert.numbers import is_count
from flowbert.progress import print_warning
from flowbert.quota import available_processors

SPINS = "3000"
"""Number of times a GNU OpenMP thread polls for work before it sleeps (default: 300,000).

A polling thread occupies a processor that another process may need. A SimCSE step on two
threads: 1.03 of its time alone, 0.4 with two other busy processes.
"""

HELP = """\
flowbert {version}: sentence embeddings from frozen language models, without labels

usage: python train.py COMMAND [options]
       (installed: flowbert COMMAND [options], or python -m flowbert COMMAND [options])

Training with PyTorch Lightning (device: --trainer.accelerator):
{trained}

Without training:
{others}

Start here:
  python train.py fit --config quickstart
  python train.py COMMAND --help

Environment:
  FLOWBERT_CACHE      folder of the embedding cache
  OMP_NUM_THREADS     threads of each computation, as --threads
  FLOWBERT_REPORT=0   write no page
  FLOWBERT_DEBUG=1    show the traceback of an error
"""


def main(args: Sequence[str] | None = None) -> None:
    """Run a command.

    Args:
        args: The words of the command line; None for ``sys.argv[1:]``.

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
            lines = {name: f"  {name:<18}{summary(name)}" for name in COMMANDS}
            trained = [lines.pop(name) for name in TRAINER_COMMANDS]
            print(
                HELP.format(
                    version=__version__,
                    trained="\n".join(trained),
                    others="\n".join(lines.values()),
                )
            )
        elif command == "--version":
            print(__version__)
        else:
            check_choice("command", command, COMMANDS)
            with warnings.catch_warnings():
                warnings.simplefilter("once", FlowbertWarning)
                warnings.showwarning = _show_warning  # type: ignore[assignment]
                line = read_line(command, words)
                # Of options that end alike, one of the line is meant.
                names = [*line.values, *line.names]
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
    """Environment variables for the threads of libraries and further processes, as a context.

    Libraries read them when they are imported. Torch, MKL, OpenBLAS and pyarrow follow
    ``OMP_NUM_THREADS``; the tokenizers follow quotas by themselves, OpenBLAS does not.

    Args:
        threads: Threads of each computation; None for the default of each library.
    """
    variables: dict[str, str] = {}
    if "OMP_WAIT_POLICY" not in os.environ:
        variables["GOMP_SPINCOUNT"] = SPINS
    if "OMP_NUM_THREADS" not in os.environ:
        variables["OPENBLAS_NUM_THREADS"] = str(available_processors())
    variables = {name: os.environ.get(name, value) for name, value in variables.items()}
    if threads is not None:
        names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS")
        variables |= dict.fromkeys(names, str(threads))
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _run(line: CommandLine) -> None:
    """Import what computes and call it."""
    if line["help"] is not None:
        print(help_text(line))
        return
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
        from flowbert.cli.commands import run

        run(line)


def _name_option(error: UserError, names: Sequence[str]) -> str:
    """The message of an error, with the option in place of its argument."""
    message = str(error)
    argument = error.argument
    if argument is None:
        return message
    endings = [name for name in names if name.endswith(f".{argument}")]
    # ``method`` of a fit is one of ``methods``.
    for name in [argument, *endings, argument.removesuffix("s")]:
        if name in names or any(each.startswith(f"{name}.") for each in names):
            return f"--{name}{message.removeprefix(argument)}"
    return message


def _fail(message: str) -> None:
    if os.environ.get("FLOWBERT_DEBUG") == "1":
        traceback.print_exc()
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    raise SystemExit(2) from None


def _show_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: Any
) -> None:
    """Print a warning; those of other packages with their place."""
    place = "" if issubclass(category, FlowbertWarning) else f"{filename}:{lineno}: "
    print_warning(f"warning: {place}{' '.join(str(message).split())}")

"""Dispatch to the commands, and turn every user error into one line and exit code 2."""

import itertools
import os
import sys
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from importlib import import_module
from typing import Any

from flowbert import __version__
from flowbert.cli.configs import config_file
from flowbert.errors import FlowbertWarning, UserError, choices
from flowbert.io.command import run_as
from flowbert.progress import say, shown

HELP = f"""flowbert {__version__}: good sentence embeddings from a frozen language model, without labels

usage: python train.py COMMAND [options]        (or, once installed: flowbert COMMAND [options])

train with PyTorch Lightning (device, precision, epochs: --trainer.*):
  fit         train a method on a corpus, evaluate it beside the baselines, save everything in a run folder
  validate    likelihood and STS figures on the development split, from a checkpoint
  test        likelihood and STS figures on the test split, from a checkpoint
  predict     embed a corpus with a checkpoint

use and compare, without training:
  evaluate    methods on STS, own pairs, answers, retrieval, linear probes: figures with 95% confidence intervals
  advise      which layers, pooling and map to take for your sentences, from these alone
  analyze     word space, sentence space and latents before and after every map, as tables and pictures
  reproduce   published rows with their exact setting: ours beside theirs
  report      the page of a run again, or one page over several runs that says what differs in their settings
  curve       Spearman, alignment and uniformity at every validation of a run, as a table and a picture
  mteb        MTEB's own evaluation of a model, and its result files
  encode      sentences or a text file -> a vector each; vectors -> mapped vectors

take it with you:
  export      a fitted model as a sentence-transformers folder or as ONNX, checked; --push sends it to the hub
  import      flows and whitenings that others' code fitted, as a run folder

start here:
  python train.py fit --config configs/quickstart.yaml        (installed: flowbert fit --config quickstart)
  python train.py COMMAND --help
"""
_TRAIN = "flowbert.cli.training:train"
_SHARING = ("evaluate", "analyze", "advise", "mteb", "encode")  # with the processes that torchrun has started
_TOOLS = ("evaluate", "reproduce", "curve", "report", "analyze", "advise", "mteb", "encode", "export")
COMMANDS = {  # imported when they run: --help must not wait for torch
    **dict.fromkeys(("fit", "validate", "test", "predict"), _TRAIN),
    **{name: f"flowbert.cli.{name}:main" for name in _TOOLS},
    "import": "flowbert.cli.import_model:main",
}


def main(args: Sequence[str] | None = None) -> None:
    """Run one command.

    Args:
        args: Command line without the program's name; default: ``sys.argv[1:]``.

    Raises:
        SystemExit: With code 2 after a user error (one line on stderr, no stack trace), 130 after Ctrl-C.
    """
    command, *options = list(sys.argv[1:] if args is None else args) or ["help"]
    if command in ("-h", "--help", "help"):
        print(HELP)
    elif command in ("--version", "version"):
        print(__version__)
    elif command in COMMANDS:
        _run(command, options)
    else:
        _fail(f"command: received {command!r}; {choices(COMMANDS, command)}")


def _run(command: str, options: list[str]) -> None:
    try:
        with warnings.catch_warnings(), shown(), run_as(["python", "train.py", command, *options]):
            warnings.showwarning = _show_warning  # type: ignore[assignment]  # file and line are never given
            _call(command, [command, *_configs_first(options)])
            sys.stdout.flush()
    except UserError as error:
        from flowbert.cli.parser import name_option

        _fail(name_option(str(error)))
    except BrokenPipeError:
        # The reader (head, less) has enough; what is still buffered must not fail at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        # A path the user gave: not there, not ours to write, or the disk is full.
        _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        raise SystemExit(130) from None


def _call(command: str, words: list[str]) -> None:
    """Call what a command stands for; of several processes the first one alone does what cannot be shared."""
    from flowbert.processes import joined, started

    shared, trained = command in _SHARING, COMMANDS[command] == _TRAIN  # Lightning shares by itself
    if not (shared or trained or started().is_global_zero):
        return
    module, _, function = COMMANDS[command].partition(":")
    with joined() if shared else nullcontext():
        getattr(import_module(module), function)(words)


def _configs_first(options: list[str]) -> list[str]:
    """Put configuration files, in their order, before the other options: whatever is said on the line wins over them.

    The parser takes what comes last, so a file behind an option would silently undo it. Names become files here.
    """
    files: list[str] = []
    rest: list[str] = []
    words = iter(options)
    for word in words:
        if word in ("--config", "-c"):
            files += [word, *map(config_file, itertools.islice(words, 1))]
        elif word.startswith(("--config=", "-c=")):
            option, _, received = word.partition("=")
            files.append(f"{option}={config_file(received)}")
        else:
            rest.append(word)
    return [*files, *rest]


def _fail(message: str) -> None:
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    raise SystemExit(2) from None


def _show_warning(message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: Any) -> None:
    """Print ours as one line; others with the place they come from."""
    where = "" if issubclass(category, FlowbertWarning) else f"{filename}:{lineno}: {category.__name__}: "
    say(f"warning: {where}{' '.join(str(message).split())}")

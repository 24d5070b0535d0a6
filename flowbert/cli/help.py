"""Help of the commands, made of the docstrings of their functions."""

import argparse
import re
from typing import Any

import jsonargparse

from flowbert.errors import UserError

CONFIG = (
    "YAML file of options, or the name of one that comes with flowbert (quickstart). Several are "
    "allowed, and options on the command line win. null stands for no value."
)
EXPLAIN = (
    "Print published rows (ids, first parts or patterns) with their settings, and exit."
)
IMPORT = (
    "Modules to import, separated by commas: those that define your classes in a saved model, "
    "checkpoint or results file. Opening a file never imports code."
)
THREADS = (
    "Number of threads for all work. By default OMP_NUM_THREADS; if that is unset, it depends on "
    "the size of the work, at most the processors of the container."
)
_ONLY_IN_PYTHON = re.compile(
    r"; in Python .*?(?=\.(?:\s|$)|;)| In Python .*?\.(?=\s|$)"
)


def plain_help(text: str) -> str:
    """The description of an argument as help of an option.

    Markup goes, and what begins with "in Python" until the end of the sentence.

    Example:
        >>> plain_help("Rows; in Python an array, too, see :func:`flowbert.fit`. None for all.")
        'Rows. Without it, all.'
    """
    text = _ONLY_IN_PYTHON.sub("", text).replace("``", "").replace("%", "%%")
    text = re.sub(r":\w+:`~?([^`]*)`", r"\1", text)
    text = re.sub(r"(^|\. )None for ", r"\1Without it, ", text)
    return text.replace("None for ", "without it, ")


def add_help(parser: argparse.ArgumentParser, with_trainer: bool) -> None:
    """Add ``--help``, which describes the Trainer's options after a word alone."""
    text = "Show this help and exit"
    if with_trainer:
        text += "; --help trainer shows the options of Lightning's Trainer"
        parser.epilog = (
            "Options of Lightning's Trainer, such as --trainer.accelerator, --trainer.devices and "
            f"--trainer.max_epochs: {parser.prog} --help trainer"
        )
    parser.add_argument(
        "--help",
        action=_PrintHelp,
        nargs="?",
        const="",
        default=argparse.SUPPRESS,
        help=f"{text}.",
    )


class _PrintHelp(argparse.Action):
    """Print the help and stop."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        _namespace: Any,
        values: Any,
        _option: str | None = None,
    ) -> None:
        """Print the help of all options but the Trainer's, or of a group."""
        print(_help_text(parser, values))
        parser.exit()


class HelpFormatter(jsonargparse.DefaultHelpFormatter):
    """Help without types; the default where there is one."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30, width=100)  # type: ignore[no-untyped-call]

    def _get_help_string(self, action: argparse.Action) -> str:
        text = action.help or ""
        default: Any = action.default
        if default in (None, (), argparse.SUPPRESS) or action.nargs == 0:
            return text
        if isinstance(default, tuple):
            default = ",".join(map(str, default))
        elif isinstance(default, bool):
            default = str(default).lower()
        return f"{text} (default: {default})"

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if not action.option_strings:
            return str(action.dest)
        return action.option_strings[0]


def _help_text(parser: argparse.ArgumentParser, group: str = "") -> str:
    """Help of a command without the Trainer's options, or with those of one group alone."""
    shown = []
    for action in parser._actions:
        in_group = action.dest.partition(".")[0] == (group or "trainer")
        internal = action.dest.endswith(".help") or action.dest == "print_config"
        if internal or in_group != bool(group) or action.dest == group:
            action.help = argparse.SUPPRESS
        else:
            shown.append(action.dest)
    if group and not shown:
        raise UserError(argument="help", received=group, expected="nothing, or trainer")
    for each in parser._action_groups:
        if each.title and each.title.startswith("Customize"):
            each.title = "trainer"
    return str(parser.format_help())

"""Help of commands and options, from the docstrings of their functions."""

import argparse
import re

import jsonargparse

CONFIG = (
    "YAML file of options, or the name of one that comes with flowbert (quickstart). Several are "
    "allowed, and options on the command line win. null means no value."
)
PRINT_CONFIG = "Print all options with their values as YAML, and exit."
QUIET = "Hide progress bars."
SHOW_HELP = "Show this help and exit"
HELP_OF_TRAINER = "; --help trainer shows the options of Lightning's Trainer"
EPILOG = (
    "Options of Lightning's Trainer, such as --trainer.accelerator, --trainer.devices and "
    "--trainer.precision: {} --help trainer"
)
_ONLY_IN_PYTHON = re.compile(
    r"; in Python .*?(?=\.(?:\s|$)|;)| In Python .*?\.(?=\s|$)"
)


def option_help(text: str) -> str:
    """The description of an argument as help of an option.

    Markup goes, and what begins with "in Python" until the end of the sentence.

    Example:
        >>> option_help("Rows; in Python an array, too, see :func:`flowbert.fit`. None for all.")
        'Rows. Without it, all.'
    """
    text = _ONLY_IN_PYTHON.sub("", text).replace("``", "").replace("%", "%%")
    text = re.sub(r":\w+:`~?([^`]*)`", r"\1", text)
    text = re.sub(r"(^|\. )None for ", r"\1Without it, ", text)
    return text.replace("None for ", "without it, ")


class HelpFormatter(jsonargparse.DefaultHelpFormatter):
    """Help without types; with the default, if there is one."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30, width=100)  # type: ignore[no-untyped-call]

    def _get_help_string(self, action: argparse.Action) -> str:
        default = action.default
        if default in (None, "", (), argparse.SUPPRESS) or action.nargs == 0:
            return action.help or ""
        if isinstance(default, bool):
            default = str(default).lower()
        return f"{action.help} (default: {default})"

    def _format_action_invocation(self, action: argparse.Action) -> str:
        return [*action.option_strings, action.dest][0]

"""Help of a command: its options with their descriptions and defaults."""

import re
import shutil
import textwrap

from flowbert.cli.command_options import (
    POSITIONAL,
    TRAINER_COMMANDS,
    list_trainer_options,
    summary,
)
from flowbert.cli.line import CommandLine, program
from flowbert.cli.signatures import REQUIRED, Parameter

_EPILOG = (
    "Options of Lightning's Trainer, such as --trainer.accelerator, --trainer.devices and "
    "--trainer.precision: {} {} --help trainer"
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
    text = _ONLY_IN_PYTHON.sub("", text).replace("``", "")
    text = re.sub(r":\w+:`~?([^`]*)`", r"\1", text)
    text = re.sub(r"(^|\. )None for ", r"\1Without it, ", text)
    return text.replace("None for ", "without it, ")


def help_text(line: CommandLine) -> str:
    """The help of a command, or of the Trainer's options."""
    command, options = line.command, line.options
    positional = POSITIONAL.get(command, "")
    usage = f"usage: {program()} {command} {positional.upper()} [options]"
    parts = [" ".join(usage.split()), "", *_wrap(summary(command))]
    group = f"{line['help']}."
    if command in TRAINER_COMMANDS and group == "trainer.":
        options = list_trainer_options()
    elif any(name.startswith(group) for name in options):
        options = {name: options[name] for name in options if name.startswith(group)}
    groups: dict[str, list[str]] = {"positional arguments": [], "options": []}
    indent = min(30, 6 + max(map(len, options)))
    for name, option in options.items():
        group = name.rpartition(".")[0] or "options"
        shown = f"  --{name}"
        if name == positional:
            group, shown = "positional arguments", f"  {name}"
        lines = _wrap(_describe(option), indent)
        if len(shown) < indent - 1:
            lines[0] = shown + lines[0][len(shown) :]
        else:
            lines = [shown, *lines]
        groups.setdefault(group, []).extend(lines)
    for group, lines in groups.items():
        if lines:
            parts += ["", f"{group}:", *lines]
    if command in TRAINER_COMMANDS:
        parts += ["", *_wrap(_EPILOG.format(program(), command))]
    return "\n".join(parts)


def _describe(option: Parameter) -> str:
    text, default = option_help(option.description), option.default
    if default is REQUIRED:
        return f"{text} (required)"
    if default in (None, "", ()) or default is False:
        return text
    return f"{text} (default: {default})"


def _wrap(text: str, indent: int = 0) -> list[str]:
    width = min(shutil.get_terminal_size().columns, 120)
    margin = " " * indent
    return textwrap.wrap(
        text,
        width,
        initial_indent=margin,
        subsequent_indent=margin,
        break_on_hyphens=False,
    )

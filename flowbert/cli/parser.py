"""Parsers whose errors are one line with the nearest allowed names."""

import difflib
import re
from argparse import RawDescriptionHelpFormatter
from collections.abc import Iterable
from typing import Any, NoReturn

from jsonargparse import ArgumentParser, DefaultHelpFormatter
from pytorch_lightning.cli import LightningArgumentParser

from flowbert.errors import UserError

_UNKNOWN = (
    re.compile(r"unrecognized arguments: (?P<names>.*)", re.DOTALL),
    re.compile(r"does not accept (?:option|nested key) '(?P<names>[^']+)'"),
    re.compile(r"[Oo]ption '(?P<names>[^']+)' is not accepted"),
    re.compile(r"[Kk]ey '?\"?(?P<names>[\w.]+)'?\"? is not expected"),
)


def nearest_options(message: str, options: Iterable[str]) -> str:
    """Add the nearest option names to a parser's complaint about unknown ones."""
    names = [option.removeprefix("--") for option in options]
    for pattern in _UNKNOWN:
        match = pattern.search(message)
        if match is None:
            continue
        unknown = [word.removeprefix("--").split("=")[0] for word in match["names"].split() if not _is_value(word)]
        hints = [_hint(word, names) for word in unknown or match["names"].split()]
        return f"unknown option {', '.join(hints)}; --help lists all"
    return message


def _is_value(word: str) -> bool:
    return not word.startswith("--") and "." not in word


def _hint(word: str, names: list[str]) -> str:
    # `--data.taks` must find `data.task` although many options start with `data.`: compare the last part as well.
    last = {name: name.split(".")[-1] for name in names}
    by_last = set(difflib.get_close_matches(word.split(".")[-1], last.values(), n=2, cutoff=0.7))
    near = [name for name in names if last[name] in by_last] or difflib.get_close_matches(word, names, n=2)
    near = difflib.get_close_matches(word, near, n=2, cutoff=0.0)
    return f"--{word}" + (f" (did you mean {' or '.join('--' + n for n in near)}?)" if near else "")


class _OneLineErrors(ArgumentParser):
    """Raise a UserError, which the command line prints as one line, in place of usage text and a stack trace."""

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        """Raise the parser's complaint as a UserError."""
        if isinstance(ex, UserError):
            raise ex
        raise UserError(nearest_options(_plain(message), _options(self)))


def _options(parser: ArgumentParser) -> list[str]:
    """Every option of a parser and of its sub-commands; ``--name+`` (append to a list) is left out."""
    found: list[str] = []
    for action in parser._actions:
        found += [option for option in action.option_strings if option.startswith("--") and option[-1] != "+"]
        if isinstance(action.choices, dict):
            found += [option for child in action.choices.values() for option in _options(child)]
    return list(dict.fromkeys(found))


def _plain(message: str) -> str:
    """Say a type error the way the rest of the project does: option, received, allowed."""
    text = " ".join(message.split())
    match = re.search(r'[Pp]arser key "(?P<key>[\w.]+)": (?P<why>.*)', text)
    if match is None:
        return text
    why = re.sub(r"<class '([\w.]+)'>", r"\1", match["why"])
    union = re.search(r"Subtypes: [\[(](?P<types>.*?)[\])] .*Given value: (?P<value>.*)", why)
    if union is not None:
        return f"--{match['key']}: received {union['value']}; allowed: {union['types']}"
    why = re.sub(r"Expected an? (.*?)\. Got value: (.*)", r"received \2; allowed: \1", why)
    return f"--{match['key']}: {why}"


CONFIG_HELP = "YAML file with any of the options below, more than once if need be; the command line wins over files."


class _Formatter(DefaultHelpFormatter, RawDescriptionHelpFormatter):
    """Help with the examples at its end left as they are."""


class ToolParser(_OneLineErrors):
    """Parser of the commands that train nothing."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, formatter_class=_Formatter, **kwargs)
        self.add_argument("--config", action="config", help=CONFIG_HELP)


class TrainingParser(_OneLineErrors, LightningArgumentParser):
    """Parser of the Lightning commands."""

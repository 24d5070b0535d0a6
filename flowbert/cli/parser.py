"""Parsers whose errors are one line with the nearest allowed names."""

import difflib
import re
from argparse import RawDescriptionHelpFormatter
from collections.abc import Collection, Iterable
from typing import Any, NoReturn

from jsonargparse import ArgumentParser, DefaultHelpFormatter, Namespace
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
    head = word.split(".")[0]
    if head in names and not any(name.startswith(f"{head}.") for name in names):  # a group elsewhere, here an option
        return f"--{word} (did you mean --{head}?)"
    inside = [name for name in names if name.startswith(f"{word}.")]
    if inside:
        return f"--{word} (did you mean {' or '.join('--' + name for name in inside[:2])}?)"
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
    why = re.sub(r"<class '([\w.]+)'>", r"\1", match["why"]).replace("NoneType", "null")
    union = re.search(r"Subtypes: [\[(](?P<types>.*?)[\])] .*Given value: (?P<value>.*)", why)
    if union is not None:
        return f"--{match['key']}: received {union['value']}; allowed: {union['types']}"
    if "Unable to load config" in why:  # a group's name with a value that is no file
        return f"--{match['key']}: {_GROUP_VALUE}"
    why = re.sub(r"Expected an? (.*?)\. Got value: (.*)", r"received \2; allowed: \1", why)
    return f"--{match['key']}: {why}"


_GROUP_VALUE = "not a YAML file of options; allowed: one, or the options themselves, --help lists them"
CONFIG_HELP = "YAML file with any of the options below, more than once if need be; the command line wins over files."


def _known(word: str, options: Collection[str]) -> bool:
    """Whether a word of a command line is a value, an option, or the beginning of one option alone."""
    name = word.split("=")[0].removesuffix("+")
    if not re.match(r"--[A-Za-z]", name) or name in options:
        return True
    return sum(option.startswith(name) for option in options) == 1


class _Formatter(DefaultHelpFormatter, RawDescriptionHelpFormatter):
    """Help with the examples at its end left as they are."""


class ToolParser(_OneLineErrors):
    """Parser of the commands that train nothing."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, formatter_class=_Formatter, **kwargs)
        self.add_argument("--config", action="config", help=CONFIG_HELP)

    def parse_args(self, args: Any = None, *rest: Any, **kwargs: Any) -> Namespace:  # type: ignore[override]
        """Parse a command line; an option that there is not is an error before its value is looked at."""
        options = _options(self)
        unknown = [word for word in args or () if isinstance(word, str) and not _known(word, options)]
        if unknown:
            self.error(f"unrecognized arguments: {unknown[0]}")
        return super().parse_args(args, *rest, **kwargs)


class TrainingParser(_OneLineErrors, LightningArgumentParser):
    """Parser of the Lightning commands."""

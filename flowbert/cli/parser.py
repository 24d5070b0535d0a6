"""The parser of a command: its options with their types, and errors of one line."""

import argparse
import inspect
import re
import shutil
import textwrap
from collections.abc import Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import jsonargparse

from flowbert.cli.line import CommandLine, program
from flowbert.cli.options import (
    POSITIONAL,
    TRAINER_COMMANDS,
    list_options,
    list_trainer_options,
    summary,
)
from flowbert.cli.signatures import Parameter
from flowbert.errors import UserError
from flowbert.numbers import WORDS, check_number

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
        width = min(shutil.get_terminal_size().columns, 100)
        super().__init__(prog, max_help_position=30, width=width)  # type: ignore[no-untyped-call]

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(text, width, break_on_hyphens=False)

    def _get_help_string(self, action: argparse.Action) -> str:
        default = action.default
        if default in (None, "", (), argparse.SUPPRESS) or action.nargs == 0:
            return action.help or ""
        if isinstance(default, bool):
            default = str(default).lower()
        return f"{action.help} (default: {default})"

    def _format_action_invocation(self, action: argparse.Action) -> str:
        return [*action.option_strings, action.dest][0]


_IN_WORDS = {
    **WORDS,
    bool: "true or false",
    str: "text",
    NoneType: "null",
}


class Parser(jsonargparse.ArgumentParser):
    """A parser whose errors name the option, the value received and what is allowed.

    Attributes:
        never_none: Options that ``null`` is not allowed for.
        texts: Options whose value is taken as it is, not read as YAML.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.never_none: set[str] = set()
        self.texts: set[str] = set()

    def read(
        self, words: Sequence[str], defaults: bool = True
    ) -> jsonargparse.Namespace:
        """Parse words; ``null`` is None.

        Args:
            words: The words of a line; an option and its value are one word.
            defaults: Whether options that are not given have their defaults, or are left out.

        Raises:
            UserError: If a value is not allowed.
        """
        values = dict(word.removeprefix("--").partition("=")[::2] for word in words)
        for name, value in values.items():  # YAML reads 1_0 as 10
            if name not in self.texts and re.fullmatch(r"[-+.\d]*\d_[\d_.e]*", value):
                raise self._refusal(name, value)
        config = self.parse_args(words, defaults=defaults)
        for name in self.texts:
            if values.get(name) == "null":
                config[name] = None
        for name in self.never_none:
            if config.get(name, self) is None:
                raise self._refusal(name, "null")
        for action in self._actions:
            if (value := config.get(action.dest)) is not None:
                check_number(action.dest, value, getattr(action, "_typehint", None))
        return config

    def error(self, message: str, ex: Exception | None = None) -> Any:
        """Raise a UserError with the option, the value received and what is allowed."""
        if not self.exit_on_error:  # the parser of a class that an option names
            return super().error(message, ex)
        found = re.search(r'[Kk]ey "([^"]+)"', message)
        value = re.findall(r"(?:Given value|Got value): ?(.*)", message)
        file = re.search("Unable to load config '(.*?)'", message)
        if found and value:
            received = "null" if value[-1] == "None" else value[-1]
            # An option of a class, such as trainer.callbacks.patience, without the class.
            received = re.sub(
                r"NestedArg\(key='(.*)', val='(.*)'\)", r"\1=\2", received
            )
            raise self._refusal(found[1], received) from ex
        if found and file:
            expected = f"received {file[1]}; expected a YAML file of its options"
            raise UserError(expected, argument=found[1]) from ex
        raise UserError(message.removeprefix("argument ")) from ex

    def _refusal(self, name: str, received: str) -> UserError:
        hints = [
            getattr(each, "_typehint", str)
            for each in self._actions
            if each.dest == name
        ]
        words = [word for hint in hints for word in _words(hint)]
        expected = " or ".join(dict.fromkeys(words)) or "another value"
        return UserError(f"received {received}; expected {expected}", argument=name)


def parser_of(command: str, options: Mapping[str, Parameter]) -> Parser:
    """The parser of a command with these options, by name."""
    positional = POSITIONAL.get(command, "")
    parser = Parser(
        prog=f"{program()} {command}",
        usage=" ".join(f"{program()} {command} {positional.upper()} [options]".split()),
        description=summary(command),
        formatter_class=HelpFormatter,
        add_help=False,
        allow_abbrev=False,
    )
    groups: dict[str, Any] = {"": parser}
    for name, parameter in options.items():
        group = name.rpartition(".")[0]
        if group not in groups:
            groups[group] = parser.add_argument_group(group)
        types = parameter.types or (Any,)
        if parameter.default is not None and NoneType not in types:
            parser.never_none.add(name)
        if str in types:
            parser.texts.add(name)
            # With None, text is read as YAML, in which "# x" is null.
            types = tuple(each for each in types if each is not NoneType)
        settings: dict[str, Any] = {"default": parameter.default}
        if name == positional:
            settings = {"nargs": "+"} if list[str] in types else {}
        elif parameter.default is inspect.Parameter.empty:
            settings = {"required": True}
        elif types == (bool,):  # --option alone is true
            settings |= {"nargs": "?", "const": True}
        groups[group].add_argument(
            name if name == positional else f"--{name}",
            type=Union[types],  # noqa: UP007
            help=option_help(parameter.description),
            **settings,
        )
    return parser


def make_parser(command: str, method: str = "flow", trainer: Any = None) -> Parser:
    """Make the parser of a command.

    Args:
        command: Its name.
        method: Method of ``fit`` and so on.
        trainer: Lightning's Trainer, whose import takes seconds; without it, its options are not
            read.
    """
    parser = parser_of(command, list_options(command, method))
    parser.add_argument("--config", "-c", action="config", help=CONFIG)
    parser._actions[-1].help = PRINT_CONFIG  # added with --config
    parser.add_argument("--quiet", action="store_true", help=QUIET)
    if command not in TRAINER_COMMANDS:
        return parser
    if trainer is None:
        parser.add_argument("--trainer", type=Any, help=argparse.SUPPRESS)
        return parser
    parser.add_class_arguments(
        trainer,
        "trainer",
        skip={"default_root_dir"},
        instantiate=False,
        fail_untyped=False,
        sub_configs=True,
    )
    for action in parser._actions:
        if hasattr(action, "_typehint"):
            action._typehint = whole_numbers_first(action._typehint)
    options = list_trainer_options()
    parser.set_defaults({name: each.default for name, each in options.items()})
    return parser


def help_text(line: CommandLine) -> str:
    """The help of a command, or of the Trainer's options."""
    is_training = line.command in TRAINER_COMMANDS
    if is_training and line.topic == "trainer":
        parser = parser_of(line.command, list_trainer_options())
        return str(parser.format_help())
    parser = make_parser(line.command, line.method)
    text = SHOW_HELP
    if is_training:
        text += HELP_OF_TRAINER
        parser.epilog = EPILOG.format(parser.prog)
    parser.add_argument("--help", action="store_true", help=f"{text}.")
    return str(parser.format_help())


def whole_numbers_first(hint: Any) -> Any:
    """A union by which 1 is one batch and not 1.0, all of them.

    ``Optional[Union[int, float]]`` has the order of an equal type that was made before, anywhere.
    """
    parts = list(get_args(hint))
    if not _is_union(hint) or not {int, float} <= set(parts):
        return hint
    if parts.index(int) > parts.index(float):
        parts.remove(int)
        parts.insert(parts.index(float), int)
    return Union[tuple(parts)]  # noqa: UP007


def _words(hint: Any) -> list[str]:
    """Words for the values that a type allows; all values of a literal."""
    if get_origin(hint) is Literal:
        return [str(value) for value in get_args(hint)]
    if _is_union(hint):
        return [word for part in get_args(hint) for word in _words(part)]
    if hint is Any:
        return []
    kind = getattr(hint, "__origin__", hint)
    return [_IN_WORDS.get(kind, "a class" if kind is hint else "a list in brackets")]


def _is_union(hint: Any) -> bool:
    return get_origin(hint) in (Union, UnionType)

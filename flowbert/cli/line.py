"""Words of a command line: options, their values, configurations, and misspelled names."""

import json
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args

import yaml

from flowbert.cli.command_options import (
    POSITIONAL,
    TRAINER_COMMANDS,
    list_options,
    list_trainer_options,
)
from flowbert.cli.signatures import REQUIRED, Parameter
from flowbert.data.text_files import as_list, read_yaml, user_path
from flowbert.errors import UserError, choices, nearest
from flowbert.numbers import WORDS, check_number, parse_integer, parse_number

_CONFIGS = Path(__file__).parents[1] / "configs"
_FLAGS = ("print_config", "quiet")
_SIMILAR = {"output": "run_dir", "run_dir": "output"}
_SHORT = {"-c": "config", "-h": "help"}
_IN_WORDS = {**WORDS, bool: "true or false", str: "text", NoneType: "null"}


RESUMED_WITH = (
    *("trainer.max_epochs", "trainer.max_steps", "trainer.max_time"),
    *("trainer.min_epochs", "trainer.min_steps"),
    *("trainer.accelerator", "trainer.devices", "trainer.num_nodes"),
    *("trainer.strategy", "trainer.logger", "trainer.log_every_n_steps"),
    *("trainer.enable_progress_bar", "checkpoint.every_n_steps"),
    *("checkpoint.every_n_minutes", "log_to", "ckpt_path", "cache"),
    *("threads", "quiet", "import", "help"),
)
"""Options that are allowed with ``--resume``: length, devices and logging."""

NOTHING = object()
"""Value of an option without one."""

Given = list[tuple[str, Any]]
"""Names of options with their values."""


@dataclass(frozen=True)
class CommandLine:
    """A command line that was read.

    Attributes:
        command: Its command.
        options: The options of the command by their full names.
        names: These names, and those of the Trainer's options.
        values: Values of the options that are given.
        trainer: Words with the options of Lightning's Trainer.
    """

    command: str
    options: dict[str, Parameter]
    names: list[str]
    values: dict[str, Any]
    trainer: list[str]

    def __getitem__(self, name: str) -> Any:
        """Value of an option, or its default; None if the command has no such option."""
        option = self.options.get(name)
        return self.values.get(name, None if option is None else option.default)


def program() -> str:
    """The program, as it was called."""
    name = Path(sys.argv[0]).name
    known = {"train.py": "python train.py", "__main__.py": "python -m flowbert"}
    return known.get(name, "flowbert")


def read_line(command: str, words: Sequence[str]) -> CommandLine:
    """Read the words after a command; options on the line win over configurations.

    Raises:
        UserError: If an option does not exist, a value is not allowed, or a configuration cannot be
            read.
    """
    given = _resumed(list(_split(command, words)))
    files = [_find_config(value) for name, value in given if name == "config"]
    contents = [(f"{file}: ", _options_in(read_yaml(file))) for file in files]
    methods = [content["method"] for _, content in contents if "method" in content]
    methods += [value for name, value in given if name == "method"]
    options = list_options(command, str(methods[-1]) if methods else "flow")
    names = [*options, *(list_trainer_options() if command in TRAINER_COMMANDS else ())]
    groups = {name.rpartition(".")[0] for name in names}
    items = [
        (where, *item)
        for where, content in contents
        for item in _flatten(content, groups)
    ]
    items += [("--", name, value) for name, value in given if name != "config"]
    values: dict[str, Any] = {}
    trainer: list[str] = []
    for where, name, value in items:
        if name == "encoder" and "encoder.path" in names:
            name = "encoder.path"  # the one option of the encoder with a short form
        _check_name(name, names, where)
        if name.startswith("trainer"):
            text = value if isinstance(value, str) else json.dumps(value)
            trainer.append(f"--{name}={text}")
            continue
        if value is NOTHING and name == "explain":
            value = "*"
        elif value is NOTHING:
            if options[name].types != (bool,):
                message = "received nothing; expected a value"
                raise UserError(message, argument=f"--{name}")
            value = True
        if name == "runs":  # several words
            value = [*values.get(name, []), value]
        values[name] = read_value(f"--{name}", value, options[name].types)
    line = CommandLine(command, options, names, values, trainer)
    missing = [name for name in options if line[name] is REQUIRED]
    if missing and line["help"] is None:
        raise UserError(f"required: {', '.join(missing)}")
    return line


def _split(command: str, words: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Yield names of options with their values."""
    waiting = list(words)
    while waiting:
        word = waiting.pop(0)
        name, equals, value = word.removeprefix("--").partition("=")
        name = _SHORT.get(name, name)
        if not _is_option(word):
            if command not in POSITIONAL:
                raise UserError(f"received {word!r}; expected options, as --help shows")
            yield POSITIONAL[command], word
        elif equals:
            yield name, value
        elif name == "help":
            is_group = waiting and not _is_option(waiting[0])
            yield name, waiting.pop(0) if is_group else ""
        elif name in _FLAGS or not waiting or _is_option(waiting[0]):
            yield name, NOTHING
        else:
            yield name, waiting.pop(0)


def _resumed(given: Given) -> Given:
    """The options, with those that ``--resume RUN`` is short for in its place.

    Raises:
        UserError: If an option is given that a resumed run cannot change.
    """
    runs = [value for name, value in given if name == "resume"]
    if not runs:
        return given
    if runs[-1] is NOTHING:
        raise UserError("received nothing; expected a run folder", argument="--resume")
    others = [(name, value) for name, value in given if name != "resume"]
    for name, value in others:
        if name not in RESUMED_WITH:
            raise UserError(
                f"received {value}; expected with --resume one of {', '.join(RESUMED_WITH)}",
                argument=f"--{name}",
            )
    run = runs[-1]
    config = ("config", f"{run}/config.yaml")
    return [config, ("ckpt_path", "last"), ("run_dir", run), *others]


def _is_option(word: str) -> bool:
    return word.startswith("--") or word in _SHORT


def _options_in(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """The options of a configuration, or of the comparison whose results a file has."""
    options: Mapping[str, Any] = content.get("record", {}).get("config", content)
    return options


def _find_config(name: Any) -> Path:
    """Find a file, or a configuration of the package by its name."""
    if name is NOTHING:
        raise UserError("received nothing; expected a YAML file", argument="--config")
    path = user_path(name)
    if path.is_file() or path.suffix:
        return path
    shipped = {file.stem: file for file in _CONFIGS.glob("*.yaml")}
    if name not in shipped:
        expected = f"a YAML file, or one of {choices(sorted(shipped), name)}"
        raise UserError(argument="--config", received=name, expected=expected)
    return shipped[name]


def _flatten(
    content: Mapping[str, Any], groups: Collection[str], group: str = ""
) -> Iterator[tuple[str, Any]]:
    """Yield the full names of the options in a configuration, with their values."""
    for key, value in content.items():
        name = f"{group}{key}"
        if name in groups and isinstance(value, dict | None):
            yield from _flatten(value or {}, groups, f"{name}.")
        else:
            yield name, value


def _check_name(name: str, names: Sequence[str], where: str) -> None:
    """Raise a UserError for an unknown option, with the most similar name."""
    known = name.removesuffix("+")  # --trainer.callbacks+ appends
    if name.startswith("trainer."):  # may name a class, with options of its own
        known = ".".join(known.split(".")[:2])
    if known not in names:
        similar = _SIMILAR.get(name, name)
        hint = nearest([f"--{each}" for each in names], f"--{similar}")
        raise UserError(f"{where}{name}: no such option{hint}; see --help")


def read_value(name: str, value: Any, types: Sequence[Any]) -> Any:
    """Read the value of an option.

    Args:
        name: Name of the option.
        value: Text, or a value of a YAML file. A list is ``a,b`` or ``[a, b]``, None is ``null``.
        types: The types that are allowed. Text is taken as it is where text is allowed.

    Raises:
        UserError: If the value has another type, or is outside of the limits of its type.
    """
    try:
        read = _read(value, types)
    except (ValueError, yaml.YAMLError) as error:
        received = "null" if value is None else value
        expected = allowed_values(types) or "another value"
        message = f"received {received}; expected {expected}"
        raise UserError(message, argument=name) from error
    for hint in types if read is not None else ():
        check_number(name, read, hint)
    return read


def _read(value: Any, types: Sequence[Any]) -> Any:
    kinds = {getattr(hint, "__origin__", hint): hint for hint in types}
    text = str(value)
    if value in (None, "null"):
        if NoneType in kinds:
            return None
    elif bool in kinds and text.lower() in ("true", "false"):
        return text.lower() == "true"
    elif list[Any] in types and value is not text:
        return value
    elif list[Any] in types and (items := _listed(text)):
        return items[0] if len(items) == 1 else items
    elif str in kinds and value is text:
        return value  # its function reads names a,b
    elif list in kinds and (text[:1] == "[" or "," in text or int not in kinds):
        items = value if isinstance(value, list) else as_list(text, "")
        return [_read(item, get_args(kinds[list])) for item in items]
    elif float in kinds:
        return parse_number(text)
    elif int in kinds:
        return parse_integer(text)
    raise ValueError(value)


def _listed(text: str) -> list[Any]:
    """Items of ``[1,12],last``; none of a text that is no list, such as ``[INST] {} [/INST]``."""
    if text[:1] != "[":
        return []
    try:
        items: list[Any] = yaml.safe_load(f"[{text}]")
    except yaml.YAMLError:
        return []
    return items


def allowed_values(types: Sequence[Any]) -> str:
    """Words for the values that types allow; all values of a literal."""
    words: list[str] = []
    for hint in types:
        kind = getattr(hint, "__origin__", type(hint))
        if kind is Literal:
            words += map(str, get_args(hint))
        elif kind in (Union, UnionType):
            words.append(allowed_values(get_args(hint)))
        elif hint is not Any:
            other = "a list" if kind is list else "a class"
            words.append(_IN_WORDS.get(hint, _IN_WORDS.get(kind, other)))
    return " or ".join(dict.fromkeys(filter(None, words)))

"""A command line is looked up before torch is imported: names of options, values, files.

The names are those of ``options.json``, which the parser writes (``make options``). A mistake is
told in 0.2 s so; the parser, which needs the functions of the commands, takes seconds to import.
"""

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from flowbert.cli.names import Names, check_pairs, check_values
from flowbert.data.text_files import check_file
from flowbert.errors import UserError, choices
from flowbert.numbers import is_count
from flowbert.quota import available_processors

_PACKAGE = Path(__file__).parents[1]

METHOD_COMMANDS = ("fit", "validate", "test", "predict")
"""Commands with a method, whose options are those of its module."""


class CommandLine(NamedTuple):
    """A command line whose names and files have been looked up.

    Attributes:
        words: Words for the parser, configurations first: what stands on the line wins.
        method: Method of ``fit`` and so on, which decides what options there are.
        threads: Threads of each computation; None where the number is not given.
    """

    words: list[str]
    method: str
    threads: int | None = None


@cache
def listed() -> Mapping[str, Any]:
    """What the parser knows: see :func:`flowbert.cli.listing.list_options`."""
    file = Path(__file__).with_name("options.json")
    content: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return content


def option_names(command: str, method: str | None = None) -> list[str]:
    """Names of all options of a command.

    Args:
        command: Name of the command.
        method: Method of ``fit`` and so on, whose options are those of its module; None for all.
    """
    options = listed()["commands"][command]["options"]
    if isinstance(options, str):
        return option_names(options, method)
    of_methods: dict[str, list[str]] = options["methods"]
    further = of_methods.values() if method is None else [of_methods.get(method, [])]
    return list(dict.fromkeys([*options["all"], *chain(*further)]))


def check(command: str, words: Sequence[str]) -> CommandLine:
    """Look up names, values and files of a command line.

    Args:
        command: Name of a command.
        words: The words after it.

    Raises:
        UserError: With the mistake, and the nearest name.
    """
    given = list(_options(words))
    configs = {
        path: _read_config(path)
        for path in (_config_file(value) for name, value in given if name == "config")
    }
    # A configuration may hold the method, which decides what options there are.
    methods = [config["method"] for config in configs.values() if "method" in config]
    methods += [value for name, value in given if name == "method"]
    method = str(methods[-1]) if methods else "flow"
    names = option_names(command, method)
    options: dict[str, Any] = {}
    for path, config in configs.items():
        for name, value in _flatten(config, names, path):
            _check_name(name, names, f"{path}: {name}")
            options[name] = value
    rest = []
    for written, value in given:
        if written is None:
            rest.append(value)
        elif written != "config":
            # A path of an encoder, the one option that has a short name.
            is_path = written == "encoder" and "encoder.path" in names
            option = "encoder.path" if is_path else written
            _check_name(option, names, f"--{option}")
            options[option.removesuffix("+")] = value
            rest.append(f"--{option}" if value is None else f"--{option}={value}")
    positional = listed()["commands"][command]["positional"]
    options[positional] = [value for name, value in given if name is None]
    if command not in METHOD_COMMANDS:
        options.pop("method", None)  # a map of a run, of any name
    known = Names(**listed()["names"])
    check_values(options, known)
    check_pairs(options, known)
    threads = _check_threads(options.get("threads"))
    words = [*(f"--config={path}" for path in configs), *rest]
    return CommandLine(words, method, threads)


def _check_threads(value: Any) -> int | None:
    """The number of threads, which environment variables tell libraries before they are imported.

    Raises:
        UserError: If it is none, or above that of the processors.
    """
    if value in (None, "null"):
        return None
    allowed = available_processors()
    count = int(value) if str(value).isdecimal() and str(value).isascii() else 0
    if not is_count(count, 1, allowed):
        raise UserError(
            argument="threads",
            received=value,
            expected=f"a whole number from 1 to {allowed}, the number of processors",
        )
    return count


def _options(words: Sequence[str]) -> Iterator[tuple[str | None, Any]]:
    """Options with their values, None for none; None with each word that is no option's.

    The parser splits words by itself, after its functions are imported.
    """
    waiting = list(words)
    while waiting:
        word = waiting.pop(0)
        if any("\ud800" <= letter <= "\udfff" for letter in word):
            raise UserError(f"options: received {word!r}; expected UTF-8 text")
        if not _is_option(word):
            yield None, word
            continue
        name, equals, value = word.removeprefix("--").partition("=")
        name = {"-c": "config", "-h": "help"}.get(name, name)
        if equals:
            yield name, value
        elif name in listed()["flags"] or not waiting or _is_option(waiting[0]):
            yield name, None
        else:
            yield name, waiting.pop(0)


def _is_option(word: str) -> bool:
    return word.startswith("--") or word in ("-c", "-h")


def _check_name(name: str, names: Sequence[str], where: str) -> None:
    name = name.removesuffix("+")
    inside = [option for option in names if option.startswith(f"{name}.")]
    classes = [f"{option}." for option in listed()["classes"] if option in names]
    is_file = bool(inside) and name in listed()["groups"]
    if name in names or is_file or name.startswith(tuple(classes)):
        return
    group, _, last = name.rpartition(".")
    parts = {option.rpartition(".")[2] for option in names}
    similar = difflib.get_close_matches(last, parts, n=1, cutoff=0.7)
    named = [option for option in names if option.rpartition(".")[2] in similar]
    named.sort(key=lambda option: not option.startswith(f"{group}."))
    hint = [f" (did you mean --{option}?)" for option in [*inside, *named][:1]]
    raise UserError(f"{where}: no such option{''.join(hint)}; see --help")


def _config_file(name: str | None) -> Path:
    """A file, or one of the configurations that come with the package."""
    if name is None:
        raise UserError("received nothing; expected a YAML file", argument="config")
    path = Path(name).expanduser()
    shipped = {file.stem: file for file in (_PACKAGE / "configs").glob("*.yaml")}
    if path.exists() or path.suffix:
        check_file(path)
        return path
    if name not in shipped:
        raise UserError(
            argument="config",
            received=name,
            expected=f"a YAML file, or one of {choices(sorted(shipped), name)}",
        )
    return shipped[name]


def _read_config(path: Path) -> Mapping[str, Any]:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    # A number of 5,000 digits is a ValueError, deep nesting a RecursionError.
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UserError(f"{path}: not readable as YAML ({error})") from error
    if content is not None and not isinstance(content, dict):
        raise UserError(f"{path}: received {content!r}; expected options with values")
    return content or {}


def _flatten(
    content: Mapping[str, Any], names: Sequence[str], path: Path, group: str = ""
) -> Iterator[tuple[str, Any]]:
    """Options of a configuration by their full names, as they stand in the list."""
    for key, value in content.items():
        name = f"{group}{key}"
        is_group = any(option.startswith(f"{name}.") for option in names)
        if is_group and isinstance(value, dict):
            yield from _flatten(value, names, path, f"{name}.")
        elif is_group and name not in names and value is not None:
            raise UserError(f"{path}: {name} is {value!r}; expected a group of options")
        elif not is_group or value is not None:
            yield name, value

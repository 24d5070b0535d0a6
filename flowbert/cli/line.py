"""Words of a command line: options, configurations, and misspelled names."""

import difflib
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from flowbert.cli.options import option_names
from flowbert.data.text_files import read_yaml, user_path
from flowbert.errors import REMOVED, UserError, choices, nearest

_CONFIGS = Path(__file__).parents[1] / "configs"
_WITHOUT_VALUE = ("help", "print_config", "quiet")
_SHORT = {"-c": "config", "-h": "help"}


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


class CommandLine(NamedTuple):
    """A command line whose option names exist.

    Attributes:
        command: Its command.
        words: Words for the parser, configurations first: options on the line win.
        method: Method of ``fit`` and so on, which determines the options.
        topic: Word after ``--help``, empty without one; None without ``--help``.
    """

    command: str
    words: list[str]
    method: str
    topic: str | None


def program() -> str:
    """The program, as it was called."""
    name = Path(sys.argv[0]).name
    known = {"train.py": "python train.py", "__main__.py": "python -m flowbert"}
    return known.get(name, "flowbert")


def read_line(command: str, words: Sequence[str]) -> CommandLine:
    """Read the words after a command.

    Raises:
        UserError: If an option does not exist, or a configuration cannot be read.
    """
    options = _resumed(list(_options(words)))
    files = [_find_config(value) for name, value in options if name == "config"]
    configs = {path: read_yaml(path) for path in files}
    methods = [config["method"] for config in configs.values() if "method" in config]
    methods += [value for name, value in options if name == "method"]
    method = str(methods[-1]) if command == "fit" and methods else "flow"
    names = option_names(command, method)
    for path, config in configs.items():
        for name in _flatten(config, names, path):
            _check_name(name, names, f"{path}: {name}")
    line = [f"--config={path}" for path in files]
    topics = [value or "" for name, value in options if name == "help"]
    for option, value in options:
        if option is None:
            line.append(str(value))
        elif option not in ("config", "help"):
            # The path is the one option of the encoder with a short form.
            is_path = option == "encoder" and "encoder.path" in names
            name = "encoder.path" if is_path else option
            _check_name(name, names, f"--{name}")
            line.append(f"--{name}" if value is None else f"--{name}={value}")
    return CommandLine(command, line, method, topics[0] if topics else None)


def _options(words: Sequence[str]) -> Iterator[tuple[str | None, str | None]]:
    """Names of options with their values, if any; other words without a name."""
    waiting = list(words)
    while waiting:
        word = waiting.pop(0)
        if any("\ud800" <= letter <= "\udfff" for letter in word):
            raise UserError(f"options: received {word!r}; expected UTF-8 text")
        if not _is_option(word):
            yield None, word
            continue
        name, equals, value = word.removeprefix("--").partition("=")
        name = _SHORT.get(name, name)
        of_trainer = name == "help" and waiting[:1] == ["trainer"]
        is_flag = name in _WITHOUT_VALUE and not of_trainer
        if equals:
            yield name, value
        elif is_flag or not waiting or _is_option(waiting[0]):
            yield name, None
        else:
            yield name, waiting.pop(0)


def _resumed(
    options: list[tuple[str | None, str | None]],
) -> list[tuple[str | None, str | None]]:
    """The options, with those that ``--resume RUN`` is short for in its place.

    Raises:
        UserError: If an option is given that a resumed run cannot change.
    """
    runs = [value for name, value in options if name == "resume"]
    if not runs:
        return options
    if runs[-1] is None:
        raise UserError("received nothing; expected a run folder", argument="resume")
    others = [(name, value) for name, value in options if name != "resume"]
    for name, value in others:
        if name not in RESUMED_WITH:
            raise UserError(
                f"received {value}; expected with --resume one of {', '.join(RESUMED_WITH)}",
                argument=name,
            )
    run = [("config", f"{runs[-1]}/config.yaml"), ("ckpt_path", "last")]
    return [*run, *others]


def _is_option(word: str) -> bool:
    return word.startswith("--") or word in _SHORT


def _find_config(name: str | None) -> Path:
    """Find a file, or a configuration of the package by its name."""
    if name is None:
        raise UserError("received nothing; expected a YAML file", argument="config")
    path = user_path(name)
    if path.is_file() or path.suffix:
        return path
    shipped = {file.stem: file for file in _CONFIGS.glob("*.yaml")}
    if name not in shipped:
        expected = f"a YAML file, or one of {choices(sorted(shipped), name)}"
        raise UserError(argument="config", received=name, expected=expected)
    return shipped[name]


def _flatten(
    content: Mapping[str, Any], names: Sequence[str], path: Path, group: str = ""
) -> Iterator[str]:
    """Yield the full names of the options in a configuration."""
    for key, value in content.items():
        name = f"{group}{key}"
        if name in names or not _options_of(name, names):
            yield name
        elif isinstance(value, dict):
            yield from _flatten(value, names, path, f"{name}.")
        elif value is not None:
            raise UserError(f"{path}: {name} is {value!r}; expected a group of options")


def _options_of(group: str, names: Sequence[str]) -> list[str]:
    return [name for name in names if name.startswith(f"{group}.")]


def _check_name(name: str, names: Sequence[str], where: str) -> None:
    """Raise a UserError for an unknown option, with the most similar name."""
    name = name.removesuffix("+")  # --trainer.callbacks+ appends
    group, *rest = name.split(".")
    if group == "trainer":  # may name a class, with options of its own
        name = ".".join([group, *rest[:1]])
    if name in names or (name == "trainer" and _options_of(name, names)):
        return
    parts = {option.rpartition(".")[2] for option in names}
    last = name.rpartition(".")[2]
    if last in REMOVED:
        raise UserError(f"{where}: no such option{nearest(parts, last)}; see --help")
    similar = difflib.get_close_matches(last, parts, 1, cutoff=0.7)
    named = [option for option in names if option.rpartition(".")[2] in similar]
    named.sort(key=lambda option: not option.startswith(f"{group}."))
    hint = [f" (did you mean --{x}?)" for x in [*_options_of(name, names), *named][:1]]
    raise UserError(f"{where}: no such option{''.join(hint)}; see --help")

"""Parsers whose errors are one line: options that there are not are found before anything is parsed."""

import difflib
from argparse import RawDescriptionHelpFormatter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextvars import Context, ContextVar
from inspect import isclass, signature
from itertools import zip_longest
from pathlib import Path
from pydoc import ErrorDuringImport, locate
from typing import Any, NoReturn

import yaml
from jsonargparse import ArgumentParser, DefaultHelpFormatter, Namespace

from flowbert.cli.configs import SHIPPED
from flowbert.errors import UserError, nearest
from flowbert.progress import hide

_OF_CORPUS = ("corpus", "senteval", "nli", "column", "max_sentences", "store_dir", "drop_overlap")
RENAMED = {f"data.{name}": name for name in _OF_CORPUS} | {
    "data.task": "tasks",
    "data.eval_tasks": "tasks",
    "encoder": "encoder.path",
    "encoder.sif": "encoder.pooling",
    "model.hard_negative_weight": "model.loss.hard_negative_weight",
    "model.temperature": "model.loss.temperature",
    "seed_everything": "seed",
}
_CONFIG_OPTIONS = ("--config", "-c")
_GROUPS = ("model", "data", "whitening", "encoder")  # an argument of several options' names is meant to be one of these
CONFIG_HELP = (
    "YAML file with any of the options below, or the name of one that comes with flowbert (quickstart), more than once "
    "if need be; the command line wins over files."
)
QUIET_HELP = "Show no progress; results, notes and warnings stay."
NOTHING = object()  # the value of an option that has none
_A_CLASS = "allowed: the import path of a class, its own options"
_LIGHTNING = ("pytorch_lightning.callbacks.", "pytorch_lightning.loggers.")  # whose classes may be named without it
_OF_CLASSES = "trainer."  # values of this group may be classes, which have options of their own
_OF_EVERY_PARSER = ("help", "config", "print_config")
_KINDS: Mapping[str, Any] = {  # a value of each, to find out what an option takes
    "a number": 0.5,
    "a whole number": 1,
    "text": "text",
    "true or false": True,
    "a list of numbers": [1],
    "a list": ["text"],
    "null": None,
}
_options_in_use: ContextVar[tuple[str, ...]] = ContextVar("options of the command that runs", default=())


def name_option(message: str) -> str:
    """Put the option in place of the argument that a message begins with, if the command has one of that name.

    Example:
        >>> token = _options_in_use.set(("seed", "model.seed", "model.noise"))
        >>> name_option("noise: received -1; allowed: 0 or more"), name_option("seed: received x")
        ('--model.noise: received -1; allowed: 0 or more', '--seed: received x')
        >>> _options_in_use.reset(token)
    """
    argument, colon, rest = message.partition(":")
    names = _options_in_use.get()
    if argument not in names:
        argument = RENAMED.get(argument, argument)  # a library call has encoder= for --encoder.path
    found = [argument] if argument in names else [name for name in names if name.split(".")[-1] == argument]
    found = found or [name for name in names if name == f"{argument}s"]  # of several, the message is about one
    if len(found) > 1:
        found = [name for name in found if name.split(".")[0] in _GROUPS]
    return f"--{found[0]}:{rest}" if colon and len(found) == 1 else message


def read_config(path: str) -> dict[str, Any]:
    """Content of a configuration file.

    Raises:
        UserError: If there is no such file, or it is no YAML mapping.
    """
    try:
        content: Any = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        shipped = f"or one of {', '.join(SHIPPED)}{nearest(SHIPPED, path)}"
        raise UserError(f"--config: {path}: {error.strerror}; allowed: a YAML file of options, {shipped}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"--config: {path} is not YAML: {error}") from error
    if not isinstance(content, dict):
        raise UserError(f"--config: {path} holds {type(content).__name__}; allowed: a mapping of options")
    return content


class _Formatter(DefaultHelpFormatter, RawDescriptionHelpFormatter):
    """Help with the examples at its end left as they are."""


class ToolParser(ArgumentParser):
    """Parser of a command; its errors are UserErrors, which the command line prints as one line."""

    given: Sequence[tuple[str, str, Any]] = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, formatter_class=_Formatter, **kwargs)
        self.add_argument("-c", "--config", action="config", help=CONFIG_HELP)
        if self.usage is not None:  # jsonargparse makes parsers of this kind for classes, too
            self.add_argument("--quiet", action="store_true", help=QUIET_HELP)

    def parse_args(self, args: Any = None, *rest: Any, **kwargs: Any) -> Namespace:  # type: ignore[override]
        """Parse a command line; an option that there is not is an error before any value is looked at."""
        defaults = self.get_defaults(skip_validation=True)
        names = _plain(defaults.keys())
        _options_in_use.set(names)
        self.given = list(given_options(args or (), names))
        self._check_names(tuple(_of_other_classes(defaults, self.given)))
        options = super().parse_args(args, *rest, **kwargs)
        if options.pop("quiet", False):
            hide()
        return options

    def instantiate(self, *args: Any, **kwargs: Any) -> Namespace:
        """Build the classes of a configuration; what a class says of its arguments is said."""
        try:
            made: Namespace = super().instantiate(*args, **kwargs)
            return made
        except ValueError as error:
            reason: BaseException | None = error
            while reason is not None and not isinstance(reason, UserError):
                reason = reason.__cause__ or reason.__context__
            raise reason or error from None

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        """Raise a UserError: which value is of the wrong type, else the parser's own complaint."""
        if isinstance(ex, UserError):
            raise ex
        # While it parses, jsonargparse takes any value: that is a context variable of its own.
        Context().run(self._check_values)
        raise UserError(" ".join(message.split()))

    def _check_names(self, other_classes: tuple[str, ...] = (), listed: str = "--help lists all") -> None:
        """Refuse an option that there is not, but for those that begin as the options of another class do."""
        names = _plain(self.get_defaults(skip_validation=True).keys())
        known = {*names, *_OF_EVERY_PARSER, *(name.removesuffix(".class_path") for name in names)}
        for source, name, _ in self.given:
            plain = f"{name}.".replace(".init_args.", ".")
            if plain[:-1] not in known and not plain.startswith(other_classes):
                raise UserError(f"{source}{_unknown(name, names, listed)}")

    def _check_values(self) -> None:
        """Refuse a value of the wrong type, and one that is wrong inside a mapping that names a class."""
        for number, (source, name, value) in enumerate(self.given):
            if isinstance(value, dict | list):
                for each in value if isinstance(value, list) else [value]:
                    if isinstance(each, dict) and "class_path" in each:
                        _check_class(source, name, str(each["class_path"]), each.get("init_args") or {})
                continue
            option = self._as_kept(name, self.given[:number])
            allowed = [kind for kind, example in _KINDS.items() if self._accepts(option, example)]
            # Without a value: a switch takes anything.
            wrong = len(allowed) < len(_KINDS) if value is NOTHING else not self._accepts(option, value)
            received = "nothing" if value is NOTHING else value
            if wrong and not {*allowed} <= {"true or false", "null"}:  # of classes the parser knows to say more
                allowed = [kind for kind in allowed if kind != "a whole number" or "a number" not in allowed]
                raise UserError(f"{source}--{name}: received {received}; allowed: {', '.join(allowed)}")
            if wrong and (option[0] != name or name.endswith(".class_path") or name.startswith(_OF_CLASSES)):
                raise UserError(f"{source}--{name}: received {received}; {_A_CLASS}")

    def _as_kept(self, name: str, before: Sequence[tuple[str, str, Any]]) -> tuple[str, dict[str, Any]]:
        """The parser's own name of an option, and the class that this one is an argument of."""
        defaults, plain = self.get_defaults(skip_validation=True), name.replace(".init_args.", ".")
        for path in filter(lambda key: key.endswith(".class_path"), defaults.keys()):
            option = path.removesuffix(".class_path")
            if plain in (option, path):
                return path, {}
            if plain.startswith(f"{option}."):
                given = [value for _, each, value in before if each in (option, path)]
                return f"{option}.init_args.{plain.removeprefix(f'{option}.')}", {path: [defaults[path], *given][-1]}
        return name, {}

    def _accepts(self, option: tuple[str, dict[str, Any]], value: Any) -> bool:
        name, beside = option
        try:
            content = Namespace({**beside, name: value})  # type: ignore[no-untyped-call]
            self.validate(content, skip_unset=False, skip_required=True)
        except (TypeError, KeyError, ValueError):
            return False
        return True


def _check_class(source: str, name: str, path: str, given: Any) -> None:
    """Refuse a class that there is not, and an option that it has not, lacks, or does not take with this value."""
    if not isinstance(given, dict):
        raise UserError(f"{source}--{name}.init_args: received {given}; allowed: a mapping of options")
    try:
        kind: Any = next(filter(isclass, (locate(f"{start}{path}") for start in ("", *_LIGHTNING))), None)
        parameters = signature(kind).parameters.values()
    except ErrorDuringImport as error:
        raise UserError(f"{source}--{name}: {path} cannot be imported ({error.value})") from error
    except (TypeError, ValueError):  # there is none, or none that says what it takes
        raise UserError(f"{source}--{name}: received {path}; {_A_CLASS}") from None
    parser = ToolParser()
    parser.add_class_arguments(kind, name, fail_untyped=False)
    needed = [p for p in parameters if p.default is p.empty and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    options = {p.name: NOTHING for p in needed} | given
    parser.given = [(source, f"{name}.{key}", value) for key, value in options.items()]
    parser._check_names(listed=f"allowed: those of {path}")
    parser._check_values()


def _plain(names: Iterable[str]) -> tuple[str, ...]:
    """Names of options as the command line has them."""
    return tuple(name.replace(".init_args.", ".") for name in names)


def given_options(words: Sequence[str], names: Collection[str] = ()) -> Iterator[tuple[str, str, Any]]:
    """Options of a command line and of its configuration files: where from, for messages, name and value.

    Args:
        words: The command line.
        names: Names of the options that there are: the value of one may be a mapping.
    """
    for word, following in zip_longest(words, words[1:], fillvalue=""):
        option, equals, joined = word.partition("=")
        value: Any = joined if equals else following if following and not following.startswith("--") else NOTHING
        if option in _CONFIG_OPTIONS and value is not NOTHING:
            for name, content in _flattened(read_config(value), names, value):
                yield f"{value}: ", name, content
        elif option.startswith("--"):
            yield "", option.removeprefix("--").removesuffix("+"), value


def _flattened(content: Mapping[str, Any], names: Collection[str], path: str, group: str = "") -> Any:
    """Options by their full names; the mapping that an option takes as its value stays one."""
    for key, value in content.items():
        name = f"{group}{key}"
        is_group = name not in names and any(option.startswith(f"{name}.") for option in names)
        if isinstance(value, dict) and name not in names:
            yield from _flattened(value, names, path, f"{name}.")
        elif is_group and value is not None:
            raise UserError(f"{path}: {name} is {value!r}; allowed: a mapping of options")
        elif not is_group:
            yield name, value


def _of_other_classes(defaults: Namespace, given: Sequence[tuple[str, str, Any]]) -> Iterator[str]:
    """How options of classes begin, where a class is a value, and not the default one, whose options are known."""
    keys = defaults.keys()
    for name in keys:
        option, _, last = name.rpartition(".")
        if name.startswith(_OF_CLASSES):
            yield f"{name}."
        elif last == "class_path" and any(each in (option, name) and path != defaults[name] for _, each, path in given):
            yield f"{option}."


def _unknown(name: str, names: Collection[str], listed: str) -> str:
    if RENAMED.get(name) in names:
        return f"--{name}: no longer an option; it is --{RENAMED[name]} now"
    near = [f"--{option}" for option in _nearest(name, names)]
    hint = f" (did you mean {' or '.join(near)}?)" if near else ""
    return f"unknown option --{name}{hint}; {listed}"


def _nearest(name: str, names: Collection[str]) -> list[str]:
    # `--model.levls` must find `model.levels` although many options start with `model.`: compare the last part first.
    inside = [option for option in names if option.startswith(f"{name}.")]
    if inside:
        return inside[:2]
    last = {option: option.split(".")[-1] for option in names}
    by_last = difflib.get_close_matches(name.split(".")[-1], dict.fromkeys(last.values()), n=2, cutoff=0.7)
    if by_last:
        return difflib.get_close_matches(name, [o for o in names if last[o] in by_last], n=2, cutoff=0.0)
    return difflib.get_close_matches(name, names, n=2)

"""The parser of a command: the parameters of its function, with the help of its docstring."""

import inspect
import re
from collections.abc import Callable, Sequence
from importlib import import_module
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import jsonargparse
from docstring_parser import parse as parse_docstring

from flowbert.cli.help import (
    CONFIG,
    EXPLAIN,
    IMPORT,
    THREADS,
    HelpFormatter,
    add_help,
    plain_help,
)
from flowbert.cli.lookup import METHOD_COMMANDS
from flowbert.encoders import EncoderOptions
from flowbert.errors import UserError
from flowbert.training.fit_options import FitOptions

COMMANDS = {
    **{name: f"flowbert.fitting.{name}" for name in METHOD_COMMANDS},
    "compare": "flowbert.experiments.compare.compare",
    "advise": "flowbert.experiments.advise.advise",
    "analyze": "flowbert.experiments.analyze.analyze",
    "reproduce": "flowbert.experiments.reproduce.reproduce",
    "report": "flowbert.reports.page.report",
    "encode": "flowbert.encoding.encode",
    "export": "flowbert.exports.export.export",
    "import_whitening": "flowbert.exports.bert_whitening.import_whitening",
}
"""Function, or class, of each command; a command imports its own alone."""

POSITIONAL = {"report": "runs", "export": "model", "import_whitening": "source"}
"""Arguments without a name."""

_SET_BY_RUN = {
    "model": ("encoder", "dim", "seed"),
    "data": (
        "corpus",
        "digest",
        "encoder",
        "examples",
        "method",
        "name",
        "nli",
        "objective",
        "rows",
        "seed",
        "tasks",
    ),
    "checkpoint": ("folder", "monitor", "mode"),
    "trainer": ("default_root_dir",),
}
"""Arguments in a group of options that a run sets by itself."""

WITHOUT_THREADS = ("report", "import_whitening")
"""Commands that compute nothing."""

_PATH_ENCODER = ("export", "reproduce")
"""Commands whose encoder is a path, no group."""

_TYPES: dict[str, Any] = {"vectors": str | None}
"""Types of arguments on the command line, where that of a call does not say."""

_IN_WORDS = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    type(None): "null",
}


_IN_A_CLASS = re.compile(r"NestedArg\(key='(.*?)', val=(.*)\)")
"""What jsonargparse calls an option such as ``trainer.callbacks.class_path``."""


class Parser(jsonargparse.ArgumentParser):
    """A parser that says of a mistake what was received and what is expected."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.never_none: set[str] = set()
        self.of_text: set[str] = set()

    def add_parameters(
        self,
        function: Callable[..., Any],
        *,
        group: str = "",
        skip: Sequence[str] = (),
        command: str = "",
    ) -> None:
        """Add the parameters of a function or class as options.

        Args:
            function: The function or class; its docstring describes the arguments.
            group: Prefix of the names.
            skip: Parameters to leave out.
            command: The command, for its positional argument.
        """
        target: Any = self
        if group:
            groups = {each.title: each for each in self._action_groups}
            target = groups.get(group) or self.add_argument_group(group)
        texts: dict[str, str] = {}
        classes = inspect.getmro(function) if inspect.isclass(function) else [function]
        for described in classes:
            for each in parse_docstring(inspect.getdoc(described) or "").params:
                text = " ".join((each.description or "").split())
                texts.setdefault(each.arg_name, text)
        signature = inspect.signature(function, eval_str=True)
        for name, parameter in signature.parameters.items():
            option = f"{group}.{name}" if group else name
            known = {action.dest for action in self._actions}
            variadic = parameter.kind is parameter.VAR_KEYWORD
            if name in skip or option in known or variadic:
                continue
            kind = _TYPES.get(name, parameter.annotation)
            kind = kind if group else _given(kind)
            if parameter.default is not None and not _allows_none(kind):
                self.never_none.add(option)
            if kind is str or str in get_args(kind):
                self.of_text.add(option)
                kind = _without_none(kind)
            options: dict[str, Any] = {
                "type": kind,
                "help": plain_help(texts.get(name, "")),
            }
            if name == POSITIONAL.get(command):
                several = {"nargs": "+"} if command == "report" else {}
                target.add_argument(name, **options, **several)
                continue
            if parameter.default is parameter.empty:
                options["required"] = True
            else:
                options["default"] = parameter.default
            if kind is bool:  # --option alone is true
                options |= {"nargs": "?", "const": True}
            target.add_argument(f"--{option}", **options)

    def read(
        self, words: Sequence[str], defaults: bool = True
    ) -> jsonargparse.Namespace:
        """Parse words; null is None, and is refused where the function does not know it.

        Args:
            words: The words of a line; an option and its value are one word.
            defaults: Whether options that are not given have their defaults, or are left out.
        """
        for word in words:
            self._check_number(word)
        config = self.parse_args(words, defaults=defaults)
        values = dict(word.removeprefix("--").partition("=")[::2] for word in words)
        for option in self.of_text:
            if values.get(option) == "null":
                config[option] = None
        for option in self.never_none:
            if config.get(option, self) is None:
                expected = self._expected(option)
                raise UserError(f"received null; expected {expected}", argument=option)
        return config

    def _check_number(self, word: str) -> None:
        """Refuse 1_0, which YAML reads as 10."""
        option, _, value = word.removeprefix("--").partition("=")
        hints = [
            getattr(each, "_typehint", str)
            for each in self._actions
            if each.dest == option
        ]
        of_text = any(hint is str or str in get_args(hint) for hint in hints)
        if not of_text and re.fullmatch(r"[-+.\d]*\d_[\d_.e]*", value):
            expected = self._expected(option)
            raise UserError(f"received {value}; expected {expected}", argument=option)

    def error(self, message: str, ex: Exception | None = None) -> Any:
        """Raise a UserError in the form ``--option: received X; expected Y``."""
        raise self._explained(message) from ex

    def _explained(self, message: str) -> UserError:
        found = re.search(r'[Kk]ey "([^"]+)"', message)
        value = re.findall(r"(?:Given value|Got value): ?(.*)", message)
        required = re.search(r'"([^"]+)" is required', message)
        file = re.search("Unable to load config '(.*?)'", message)
        if required:
            return UserError("received nothing; expected a value", argument=required[1])
        if found and value and (inner := _IN_A_CLASS.search(value[-1])):
            return UserError(
                f"received {inner[2]}; expected that of a class",
                argument=f"{found[1]}.{inner[1]}",
            )
        if found and value:
            expected = self._expected(found[1])
            received = "null" if value[-1] == "None" else value[-1]
            return UserError(
                f"received {received}; expected {expected}", argument=found[1]
            )
        if found and file:
            return UserError(
                f"received {file[1]}; expected a YAML file of its options",
                argument=found[1],
            )
        return UserError(message.removeprefix("argument "))

    def _expected(self, option: str) -> str:
        words: list[str] = []
        for action in self._actions:
            if action.dest == option:
                hint: Any = getattr(action, "_typehint", str)
                kinds = get_args(hint) if _is_union(hint) else [hint]
                words = [word for kind in kinds for word in _words(kind)]
        return " or ".join(dict.fromkeys(words)) or "another value"


def _words(kind: Any) -> list[str]:
    """What a type allows: a word for it, or all values of a literal."""
    if get_origin(kind) is Literal:
        return [str(value) for value in get_args(kind)]
    if _is_union(kind):
        return [word for part in get_args(kind) for word in _words(part)]
    return [_IN_WORDS.get(kind, "a list")]


def _given(hint: Any) -> Any:
    """The part of a type that a command line can give; a call allows more."""
    parts = get_args(hint)
    if get_origin(hint) is Sequence:
        return list[_given(parts[0])]  # type: ignore[misc]
    if _is_union(hint):
        given = [_given(part) for part in parts]
        kept = [part for part in given if part in _IN_WORDS or get_origin(part) is list]
        return Union[tuple(kept)]  # noqa: UP007
    return hint


def _allows_none(hint: Any) -> bool:
    return type(None) in get_args(hint)


def _without_none(hint: Any) -> Any:
    """A text by itself is taken as it is; beside None it is read as YAML, without a ``# x``."""
    parts = tuple(part for part in get_args(hint) if part is not type(None))
    return Union[parts] if _is_union(hint) else hint  # noqa: UP007


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


def _is_union(hint: Any) -> bool:
    return get_origin(hint) in (Union, UnionType)


def make_parser(
    command: str,
    function: Callable[..., Any],
    method: str = "flow",
) -> Parser:
    """The parser of a command.

    Args:
        command: Its name.
        function: The function.
        method: Method of ``fit`` and so on.
    """
    positional = POSITIONAL.get(command, "")
    parser = Parser(
        prog=f"train.py {command}",
        usage=f"train.py {command} {positional.upper()} [options]".replace("  ", " "),
        description=summary(function),
        formatter_class=HelpFormatter,
        add_help=False,
    )
    parser.add_argument("--config", action="config", help=CONFIG)
    skip = [*_SET_BY_RUN, "config"] if command in METHOD_COMMANDS else []
    has_encoder = "encoder" in inspect.signature(function).parameters
    if has_encoder and command not in _PATH_ENCODER:
        skip.append("encoder")
    parser.add_parameters(
        FitOptions if command in METHOD_COMMANDS else function,
        skip=skip,
        command=command,
    )
    if "encoder" in skip:
        parser.add_parameters(EncoderOptions, group="encoder")
    if command == "reproduce":
        parser.add_argument("--explain", type=str, default=None, help=EXPLAIN)
    if command in METHOD_COMMANDS:
        _add_training(parser, method)
    parser.add_argument("--import", type=str, default="", help=IMPORT)
    if command not in WITHOUT_THREADS:
        parser.add_argument("--threads", type=int | None, default=None, help=THREADS)
    parser.add_argument("--quiet", action="store_true", help="Hide progress bars.")
    add_help(parser, with_trainer=command in METHOD_COMMANDS)
    return parser


def load(source: str) -> Any:
    """A function or class by its full name."""
    module, _, name = source.rpartition(".")
    return getattr(import_module(module), name)


def summary(function: Callable[..., Any]) -> str:
    """What a command does: the first line of the docstring."""
    return (inspect.getdoc(function) or "").splitlines()[0].replace("``", "")


def _training_sources(method: str) -> list[tuple[str, Callable[..., Any]]]:
    """Groups of a training's options, and the functions or classes that they are parameters of."""
    from flowbert.methods import METHODS, make_examples
    from flowbert.methods.trained import TrainedModule
    from flowbert.training import checkpoint_callbacks

    sources: list[tuple[str, Any]] = []
    if method in METHODS:
        kind = METHODS[method]
        classes = [kind.options_class, kind.module_class]
        sources = [("model", each) for each in classes if each is not None]
        sources.append(("data", kind.data_class))
        if not kind.is_frozen:
            sources += [("model", TrainedModule), ("data", make_examples)]
    return [*sources, ("checkpoint", checkpoint_callbacks)]


def _add_training(parser: Parser, method: str) -> None:
    """Options of the module, its data, the checkpoints and the Trainer."""
    from pytorch_lightning import Trainer  # other commands do not wait for it

    from flowbert.fitting.prepare import TRAINER_DEFAULTS

    for group, source in _training_sources(method):
        parser.add_parameters(source, group=group, skip=_SET_BY_RUN[group])
    parser.add_class_arguments(
        Trainer,
        "trainer",
        skip=set(_SET_BY_RUN["trainer"]),
        instantiate=False,
        fail_untyped=False,
        sub_configs=True,
    )
    for action in parser._actions:
        if hasattr(action, "_typehint"):
            action._typehint = whole_numbers_first(action._typehint)
    defaults = {f"trainer.{name}": value for name, value in TRAINER_DEFAULTS.items()}
    parser.set_defaults(defaults)

"""Options by name, read from the source: a mistake is found before torch is imported."""

import ast
import difflib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from flowbert.cli.names import check_values
from flowbert.data.files import check_file
from flowbert.errors import UserError, choices

TRAINED = ("fit", "validate", "test", "predict")

COMMANDS = {
    **{name: f"flowbert.fitting.{name}" for name in TRAINED},
    "compare": "flowbert.experiments.compare.compare",
    "advise": "flowbert.experiments.advise.advise",
    "analyze": "flowbert.experiments.analyze.analyze",
    "reproduce": "flowbert.experiments.reproduce.reproduce",
    "report": "flowbert.reports.page.report",
    "encode": "flowbert.encoding.encode",
    "export": "flowbert.exports.export.export",
    "import_whitening": "flowbert.exports.imports.import_whitening",
}
"""Function, or class, of each command."""

MODULES = {
    "flow": "flowbert.methods.flow.FlowModule",
    "simcse": "flowbert.methods.simcse.SimCSEModule",
    "sbert": "flowbert.methods.sbert.SBERTModule",
    "mlm": "flowbert.methods.mlm.MLMModule",
}
"""Module of each method that a Trainer trains."""

_TRAINED_MODULE = "flowbert.methods.trained.TrainedModule"
_ROWS = "flowbert.training.rows.RowsDataModule"
_TEXT = "flowbert.methods.text.TextDataModule"
_EXAMPLES = "flowbert.methods.examples.make_examples"
_CHECKPOINTS = "flowbert.training.checkpoints.checkpoint_callbacks"
_TRAINER = "pytorch_lightning.trainer.trainer.Trainer"

POSITIONAL = {"report": "runs", "export": "model", "import_whitening": "source"}
"""Arguments without a name."""

FLAGS = ("quiet", "print_config")
"""Options without a value."""

SET_BY_RUN = {
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

SET_BY_COMMAND = ("config",)
"""Arguments of a training that the command line sets by itself."""

_FIT_OPTIONS = "flowbert.training.options.FitOptions"

_PATH_ENCODER = ("export", "reproduce")  # their encoder is a path, no group
_NESTED = (
    "model.loss",
    "trainer",
)  # options that may hold classes, with options of their own
_FILES = ("ckpt_path", "corpus", "input", "nli", "vectors")
_PACKAGE = Path(__file__).parents[1]


class CommandLine(NamedTuple):
    """A command line whose names and files have been checked.

    Attributes:
        words: Options for the parser, configurations first: what stands on the line wins.
        method: Method of ``fit`` and so on.
        help: Group of options to describe, "" for all but the Trainer's; None for no help.
        quiet: Whether no progress is shown.
        given: Full names of the options that are given, on the line or in configurations.
    """

    words: list[str]
    method: str
    help: str | None
    quiet: bool
    given: tuple[str, ...] = ()


def check(command: str, words: Sequence[str]) -> CommandLine:
    """Check names, files and configurations of a command line.

    Args:
        command: Name of a command.
        words: The words after it.

    Raises:
        UserError: With the mistake, and the nearest name.
    """
    given = list(_options(words))
    named = [(name, value) for name, value in given if name is not None]
    configs = {
        path: _read_config(path)
        for path in (_config_file(value) for name, value in named if name == "config")
    }
    methods = [config["method"] for config in configs.values() if "method" in config]
    methods += [value for name, value in named if name == "method"]
    method = str(methods[-1]) if methods else "flow"
    names = option_names(command, method)
    options: dict[str, Any] = {}
    for path, config in configs.items():
        for name, value in _flatten(config, names, path):
            _check_name(name, names, f"{path}: {name}")
            options[name] = value
    rest = []
    for given_name, value in given:
        if given_name is None:
            rest.append(value)
        elif given_name not in ("config", "help", "quiet"):
            is_path = given_name == "encoder" and "encoder.path" in names
            option = "encoder.path" if is_path else given_name
            _check_name(option, names, f"--{option}")
            options[option.removesuffix("+")] = value
            rest.append(f"--{option}" if value is None else f"--{option}={value}")
    for name in _FILES:
        if name in names and isinstance(options.get(name), str):
            _check_path(options[name], name)
    if command in POSITIONAL:
        options[POSITIONAL[command]] = [x for name, x in given if name is None]
    # Elsewhere it is a map of a run, of any name.
    options["method"] = method if command in TRAINED else None
    check_values(options)
    flags = dict(named)
    return CommandLine(
        [*(f"--config={path}" for path in configs), *rest],
        method,
        (flags["help"] or "") if "help" in flags else None,
        "quiet" in flags,
        tuple(options),
    )


def _options(words: Sequence[str]) -> Iterator[tuple[str | None, Any]]:
    """Options with their values, None for none; None with each word that is no option's."""
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
        elif name in FLAGS or not waiting or _is_option(waiting[0]):
            yield name, None
        else:
            yield name, waiting.pop(0)


def _is_option(word: str) -> bool:
    return word.startswith("--") or word in ("-c", "-h")


def _check_name(name: str, names: Sequence[str], where: str) -> None:
    name = name.removesuffix("+")
    nested = [f"{option}." for option in names if option.startswith(_NESTED)]
    if name in (*names, *_NESTED) or name.startswith(tuple(nested)):
        return
    group, _, last = name.rpartition(".")
    inside = [option for option in names if option.startswith(f"{name}.")]
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
    """Options of a configuration by their full names."""
    for key, value in content.items():
        name = f"{group}{key}"
        is_group = any(option.startswith(f"{name}.") for option in names)
        if is_group and isinstance(value, dict):
            yield from _flatten(value, names, path, f"{name}.")
        elif is_group and name not in names and value is not None:
            raise UserError(f"{path}: {name} is {value!r}; expected a group of options")
        elif not is_group or value is not None:
            yield name, value


def _check_path(value: str, argument: str) -> None:
    """Look for a file whose name looks like a path; lists, globs and other names pass."""
    path = Path(value).expanduser()
    looks = value.startswith(("/", "./", "../", "~")) or len(path.suffix) > 2
    plain = not any(letter in value for letter in ",*?[:")
    if looks and plain and not path.exists() and value.count("/") != 1:
        try:
            check_file(path)
        except UserError as error:
            raise UserError(str(error), argument=argument) from error


def option_names(command: str, method: str = "flow") -> list[str]:
    """Names of all options of a command, in order.

    Args:
        command: Name of the command.
        method: Method of ``fit`` and so on, whose options are those of its module.
    """
    names: list[str] = []
    source = _FIT_OPTIONS if command in TRAINED else COMMANDS[command]
    for name in parameters(source):
        if command in TRAINED and name in (*SET_BY_RUN, *SET_BY_COMMAND):
            continue
        if name == POSITIONAL.get(command):
            continue
        if name == "encoder" and command not in _PATH_ENCODER:
            fields = parameters("flowbert.encoders.options.EncoderOptions")
            names += [f"encoder.{field}" for field in fields]
        else:
            names.append(name)
    if command in TRAINED:
        for group, source in [*training_sources(method), ("trainer", _TRAINER)]:
            inner = [
                name for name in parameters(source) if name not in SET_BY_RUN[group]
            ]
            names += [f"{group}.{name}" for name in inner]
    if command == "reproduce":
        names.append("explain")
    return list(dict.fromkeys([*names, "config", "help", *FLAGS]))


def training_sources(method: str) -> list[tuple[str, str]]:
    """Groups of a training's options, and the functions or classes that they are parameters of."""
    sources = [("checkpoint", _CHECKPOINTS)]
    if method == "flow":
        sources = [("model", MODULES[method]), ("data", _ROWS), *sources]
    elif method in MODULES:
        model = [("model", MODULES[method]), ("model", _TRAINED_MODULE)]
        sources = [*model, ("data", _TEXT), ("data", _EXAMPLES), *sources]
    return sources


@cache
def parameters(source: str) -> tuple[str, ...]:
    """Parameters of a function, or of a class, by its full name; it is not imported."""
    node = _definition(source)
    if isinstance(node, ast.ClassDef):
        constructor = _find("__init__", node)
        if constructor is None:
            fields = [each for each in node.body if isinstance(each, ast.AnnAssign)]
            return tuple(ast.unparse(field.target) for field in fields)
        node = constructor
    arguments = [*node.args.args, *node.args.kwonlyargs]
    return tuple(each.arg for each in arguments if each.arg != "self")


def summary(command: str) -> str:
    """What a command does: the first line of the docstring."""
    node = _definition(COMMANDS[command])
    return (ast.get_docstring(node) or "").splitlines()[0].replace("``", "")


def _definition(source: str) -> Any:
    module, _, name = source.rpartition(".")
    package: Any = find_spec(module.partition(".")[0])
    place = Path(package.origin).parents[1] / module.replace(".", "/")
    file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    return _find(name, ast.parse(file.read_text(encoding="utf-8")))


def _find(name: str, within: ast.Module | ast.ClassDef) -> Any:
    """A function or class by its name; None if there is none."""
    for node in within.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
            return node
    return None


def load(source: str) -> Any:
    """A function or class by its full name."""
    module, _, name = source.rpartition(".")
    return getattr(import_module(module), name)

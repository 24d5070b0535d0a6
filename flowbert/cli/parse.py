"""Command lines: options of each command, and their values from words and configurations.

The options are the fields of the dataclasses in :mod:`flowbert.options`.
"""

import inspect
import json
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from types import GenericAlias, NoneType, UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import yaml

from flowbert.data.text_files import as_list, read_yaml, user_path
from flowbert.errors import (
    LONGEST_VALUE,
    UserError,
    allowed_values,
    choices,
    similar_option,
)
from flowbert.numbers import Count, parse_integer, parse_number
from flowbert.options import (
    TRAINED_METHODS,
    TRAINER_DEFAULTS,
    AdviseOptions,
    AnalyzeOptions,
    CompareOptions,
    EncodeOptions,
    EncoderOptions,
    ExportOptions,
    FitOptions,
    PredictOptions,
    ReportOptions,
    ReproduceOptions,
    RunOptions,
    ValidateOptions,
    field_documents,
)


@dataclass(frozen=True)
class LineOptions:
    """Command line.

    Args:
        threads: Number of threads. By default OMP_NUM_THREADS, otherwise by the size of the work,
            at most the processors of the container.
        import_: Modules that define your classes, such as ``a,b``. Opening a file never imports
            code.
        config: YAML file of options, results.json of a comparison, or the name of a file that comes
            with flowbert (quickstart). Several are allowed, and options on the command line win.
            null means no value.
        print_config: Print all options with their values as YAML, and exit.
        quiet: Hide progress bars.
        help: Show this help, or that of a group, such as ``model``, and exit.
    """

    threads: Count | None = None
    import_: str | Sequence[str] = ""
    config: str | None = None
    print_config: bool = False
    quiet: bool = False
    help: str | None = None


@dataclass(frozen=True)
class FitLine(LineOptions):
    """Command line.

    Args:
        resume: Run folder to resume; only options of length, devices and logging may be added.
    """

    resume: str | None = None


@dataclass(frozen=True)
class CompareLine(LineOptions):
    """Command line.

    Args:
        format: Print the table as ``text``, ``markdown`` or ``latex``.
    """

    format: str = "text"


@dataclass(frozen=True)
class ReproduceLine(LineOptions):
    """Command line.

    Args:
        explain: Print the row with this id as a configuration of ``compare``, with our reading of
            the paper, and exit. A first part, a pattern or no value lists the ids.
    """

    explain: str | None = None


class Command(NamedTuple):
    """A command.

    Attributes:
        function: Import path of its function.
        options: The options of the function.
        line: Options of the command line alone.
        positional: Option whose name may be omitted.
        examples: Example lines of the help, without the name of the command.
    """

    function: str
    options: type
    line: type = LineOptions
    positional: str = ""
    examples: tuple[str, ...] = ()


COMMANDS = {
    "fit": Command(
        "flowbert.fitting.fit",
        FitOptions,
        FitLine,
        examples=(
            "--config quickstart",
            "--encoder bert-base-uncased --corpus own.txt --tasks pairs.csv",
        ),
    ),
    "validate": Command(
        "flowbert.fitting.validate",
        ValidateOptions,
        positional="run",
        examples=("runs/first", "runs/first --tasks STSB --senteval data"),
    ),
    "test": Command(
        "flowbert.fitting.test",
        RunOptions,
        positional="run",
        examples=("runs/first", "runs/first --tasks STSB,pairs.csv"),
    ),
    "predict": Command(
        "flowbert.fitting.predict",
        PredictOptions,
        positional="run",
        examples=("runs/first", "runs/first --ckpt_path best"),
    ),
    "compare": Command(
        "flowbert.experiments.compare.compare",
        CompareOptions,
        CompareLine,
        examples=(
            "--methods raw,whitening,flow --tasks pairs.csv --output results.json",
            "--encoder bert-base-uncased --encoder.layers last,first_last --tasks STSB",
        ),
    ),
    "advise": Command(
        "flowbert.extras.advice.advise",
        AdviseOptions,
        examples=("--encoder bert-base-uncased", "--corpus own.txt"),
    ),
    "analyze": Command(
        "flowbert.extras.analysis.analyze.analyze",
        AnalyzeOptions,
        examples=(
            "--corpus own.txt --output own.analysis.json",
            "--methods raw,zca --measures isotropy,spectra",
        ),
    ),
    "reproduce": Command(
        "flowbert.extras.papers.reproduce.reproduce",
        ReproduceOptions,
        ReproduceLine,
        examples=("--explain", "--rows li2020-2 --senteval data --output results.json"),
    ),
    "report": Command(
        "flowbert.extras.report.page.report",
        ReportOptions,
        positional="runs",
        examples=("runs/first", "first.json second.json --output both.html"),
    ),
    "encode": Command(
        "flowbert.encoding.encode",
        EncodeOptions,
        examples=(
            "--model runs/first --input own.txt --output vectors.npy",
            "--encoder bert-base-uncased --input own.csv --column text --output own.parquet",
        ),
    ),
    "export": Command(
        "flowbert.extras.export.formats.export",
        ExportOptions,
        positional="model",
        examples=(
            "runs/first --to my-model",
            "runs/first --to my-onnx --format onnx",
        ),
    ),
}
TRAINER_COMMANDS = ("fit", "validate", "test", "predict")
"""Commands with options of Lightning's Trainer."""

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

_TRAINER = (*TRAINER_DEFAULTS, "accelerator", "devices", "max_steps", "precision")
_CONFIGS = Path(__file__).parents[1] / "configs"
_FLAGS = ("print_config", "quiet")
_LONG = {"-c": "--config", "-h": "--help"}
_WITHOUT_VALUE = {"help": "", "explain": "*"}
_NOTHING = object()  # value of an option without one


class Option(NamedTuple):
    """An option.

    Attributes:
        types: Types that a command line can express, in order.
        default: Default; ``MISSING`` without one.
        description: Description, in one line.
        title: First line of the class that defines it.
    """

    types: tuple[Any, ...]
    default: Any
    description: str
    title: str


@dataclass(frozen=True)
class CommandLine:
    """A command line that was read.

    Attributes:
        command: Name of the command.
        options: Options of the command, by full name.
        values: Values of the options on the line.
        trainer: Place (a file, or ``--``), name and text of the options of Lightning's Trainer.
    """

    command: str
    options: dict[str, Option]
    values: dict[str, Any]
    trainer: list[tuple[str, str, str]]

    @property
    def names(self) -> list[str]:
        """Names of options for messages, those on the line first."""
        return [*self.values, *known_names(self.command, self.options)]

    def __getitem__(self, name: str) -> Any:
        """Value of an option, or its default; None if the command has no such option."""
        option = self.options.get(name)
        return self.values.get(name, None if option is None else option.default)


def program() -> str:
    """Name of the program, as it was called."""
    name = Path(sys.argv[0]).name
    known = {"train.py": "python train.py", "__main__.py": "python -m flowbert"}
    return known.get(name, "flowbert")


def list_options(command: str, method: str = "flow") -> dict[str, Option]:
    """Options of a command by their full names, such as ``model.levels``.

    Args:
        command: Name of the command.
        method: Method of ``fit``, which adds the options of its module and data.
    """
    options = _options_of(COMMANDS[command].options)
    if command == "fit" and method in TRAINED_METHODS:
        for group, kind in TRAINED_METHODS[method].groups.items():
            options |= _options_of(kind, f"{group}.")
    return options | _options_of(COMMANDS[command].line)


def known_names(command: str, options: Mapping[str, Option]) -> list[str]:
    """Names of options, with some of the Trainer's: its class is slow to import."""
    if command not in TRAINER_COMMANDS:
        return list(options)
    return [*options, *(f"trainer.{name}" for name in _TRAINER)]


def _options_of(kind: type, group: str = "") -> dict[str, Option]:
    """The fields of a dataclass as options; a field that is a dataclass is a group."""
    documents = field_documents(kind)
    titles = {
        name: str(inspect.getdoc(base)).partition("\n")[0]
        for base in kind.__mro__  # the first base that has a field gives its title
        for name in inspect.get_annotations(base)
    }
    hints = get_type_hints(kind, include_extras=True)
    options: dict[str, Option] = {}
    for field in fields(kind):
        name = f"{group}{field.name.rstrip('_')}"
        members = _members(hints[field.name])
        groups: list[Any] = [each for each in members if is_dataclass(each)]
        if groups:
            options |= _options_of(groups[0], f"{name}.")
        elif not any(get_origin(each) is Mapping for each in members):
            text = " ".join(documents[field.name].split())
            types = _line_types(members, field.default)
            options[name] = Option(types, field.default, text, titles[field.name])
    return options


def _members(hint: Any) -> tuple[Any, ...]:
    """The members of a union, or the type itself."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _line_types(members: tuple[Any, ...], default: Any) -> tuple[Any, ...]:
    """Types that a command line can express; for Any: text, None, or lists of text."""
    types: list[Any] = []
    for each in members:
        if get_origin(each) in (list, Sequence):
            types.append(GenericAlias(list, get_args(each)))
        elif each not in (Any, Path):
            types.append(each)
    if types:
        return tuple(types)
    return (str, NoneType) if default is None else (str, list[str])


def read_line(command: str, words: Sequence[str]) -> CommandLine:
    """Read the words after a command; options on the line win over configurations.

    Raises:
        UserError: If an option does not exist, a value is not allowed, or a configuration cannot be
            read.
    """
    given = _resumed(list(_split(command, words)))
    files = [_find_config(value) for name, value in given if name == "config"]
    contents = []
    for file in files:
        content = read_yaml(file)
        # A file of results has the options of the comparison.
        config = content.get("record", {}).get("config", content)
        contents.append((f"{file}: ", config))
    methods = [content["method"] for _, content in contents if "method" in content]
    methods += [value for name, value in given if name == "method"]
    options = list_options(command, str(methods[-1]) if methods else "flow")
    groups = {name.rpartition(".")[0] for name in options} | {"trainer"}
    items = [
        (where, *item)
        for where, content in contents
        for item in _flatten(content, groups)
    ]
    items += [("--", name, value) for name, value in given if name != "config"]
    values: dict[str, Any] = {}
    trainer: list[tuple[str, str, str]] = []
    for where, name, value in items:
        if name == "encoder" and "encoder.path" in options:
            name = "encoder.path"  # the one option of the encoder with a short form
        is_trainer = name.startswith("trainer.") and command in TRAINER_COMMANDS
        if not is_trainer:
            _check_name(name, command, options, where)
        if value is _NOTHING:
            if is_trainer or bool not in options[name].types:
                message = "received nothing; expected a value"
                raise UserError(message, argument=f"--{name}")
            value = True
        if is_trainer:
            text = value if isinstance(value, str) else json.dumps(value)
            trainer.append((where, name, text))
            continue
        if name == "runs" and isinstance(value, str):  # several words
            value = [*values.get(name, []), value]
        values[name] = read_value(f"--{name}", value, options[name].types)
    line = CommandLine(command, options, values, trainer)
    missing = [name for name in options if line[name] is MISSING]
    if missing and line["help"] is None:
        raise UserError(f"required: {', '.join(f'--{name}' for name in missing)}")
    return line


def _split(command: str, words: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Yield names of options with their values."""
    positional = COMMANDS[command].positional
    waiting = [_LONG.get(word, word) for word in words]
    while waiting:
        word = waiting.pop(0)
        name, equals, value = word.removeprefix("--").partition("=")
        is_last = not waiting or waiting[0].startswith("--")
        if not word.startswith("--"):
            if not positional:
                example = f"{program()} {command} {COMMANDS[command].examples[0]}"
                message = f"received {word!r}; expected options, as in {example}"
                raise UserError(message)
            yield positional, word
        elif equals:
            yield name, value
        elif is_last:
            yield name, _WITHOUT_VALUE.get(name, _NOTHING)
        elif name in _FLAGS and waiting[0] not in ("true", "false"):
            yield name, "true"
        else:
            yield name, waiting.pop(0)


def _resumed(given: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Replace ``--resume RUN`` by the options that it stands for.

    Raises:
        UserError: If a resumed run cannot change one of the options.
    """
    runs = [value for name, value in given if name == "resume"]
    if not runs:
        return given
    if runs[-1] is _NOTHING:
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


def _find_config(name: Any) -> Path:
    """Find a file, or a configuration of the package by its name."""
    if name is _NOTHING:
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
    """Yield full names and values of the options in a configuration."""
    for key, value in content.items():
        name = f"{group}{key}"
        if name in groups and isinstance(value, dict | None):
            yield from _flatten(value or {}, groups, f"{name}.")
        else:
            yield name, value


def _check_name(
    name: str, command: str, options: Mapping[str, Option], where: str
) -> None:
    """Raise a UserError for an unknown option, with the most similar names."""
    if name in options:
        return
    names = known_names(command, options)
    members = [f"--{each}" for each in names if each.startswith(f"{name}.")]
    if members:
        raise UserError(
            f"{where}{name}: is a group of options, such as {members[0]}; see --help {name}"
        )
    hint = similar_option([*names, "encoder"], name)
    raise UserError(f"{where}{name}: no such option{hint}; see --help")


def read_value(name: str, value: Any, types: Sequence[Any]) -> Any:
    """Read the value of an option.

    Args:
        name: Name of the option.
        value: Text, or a value of a YAML file. A list is ``a,b`` or ``[a, b]``, None is ``null``.
        types: Allowed types. If text is allowed, text is not converted.

    Raises:
        UserError: If the value has another type.
    """
    try:
        return _read(value, types)
    except (ValueError, yaml.YAMLError) as error:
        received = "null" if value is None else str(value)[:LONGEST_VALUE]
        expected = allowed_values(types) or "another value"
        message = f"received {received}; expected {expected}"
        raise UserError(message, argument=name) from error


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
        members = _members(*get_args(kinds[list]))
        return [_read(item, members) for item in items]
    elif float in kinds:
        return parse_number(text)
    elif int in kinds:
        return parse_integer(text)
    raise ValueError(value)


def _listed(text: str) -> list[Any]:
    """Items of ``[1,12],last``; empty for text such as ``[INST] {} [/INST]``."""
    if text[:1] != "[":
        return []
    try:
        items: list[Any] = yaml.safe_load(f"[{text}]")
    except yaml.YAMLError:
        return []
    return items


def read_options(line: CommandLine) -> Any:
    """Make the options of the command's function.

    Raises:
        UserError: If a value is outside of its limits.
    """
    options: dict[str, Any] = {}
    left_out = _options_of(COMMANDS[line.command].line)
    for name, value in line.values.items():
        group, _, last = name.rpartition(".")
        if name not in left_out:
            (options.setdefault(group, {}) if group else options)[last] = value
    if "encoder.path" in line.options:
        options["encoder"] = EncoderOptions(**options.get("encoder", {}))
    if isinstance(options.get("corpus"), list):  # of YAML: names, not sentences
        options["corpus"] = {name: name for name in options["corpus"]}
    return COMMANDS[line.command].options(**options)

"""The options of each command: the parameters of its function, and of what the function makes."""

from types import NoneType

from flowbert.cli.signatures import Parameter, read_signature
from flowbert.numbers import Count
from flowbert.options import TRAINED_METHODS, TRAINER_DEFAULTS

TRAINER_COMMANDS = ("fit", "validate", "test", "predict")
"""Commands with options of Lightning's Trainer."""

COMMANDS = {
    **{name: f"flowbert.fitting.{name}" for name in TRAINER_COMMANDS},
    "compare": "flowbert.experiments.compare.compare",
    "advise": "flowbert.extras.advice.advise",
    "analyze": "flowbert.extras.analysis.analyze.analyze",
    "reproduce": "flowbert.extras.papers.reproduce.reproduce",
    "report": "flowbert.extras.report.page.report",
    "encode": "flowbert.encoding.encode",
    "export": "flowbert.extras.export.formats.export",
}
"""Function of each command."""

POSITIONAL = {
    **dict.fromkeys(("validate", "test", "predict"), "run"),
    "report": "runs",
    "export": "model",
}
"""Arguments without a name."""

_TRAINER = "pytorch_lightning.trainer.trainer.Trainer"
_CHECKPOINT = "flowbert.training.checkpoints.checkpoint_callbacks"
_SET_BY_RUN = {
    "model": ("encoder", "dim", "seed"),
    "data": ("digest", "encoder", "examples", "name", "objective", "rows", "seed"),
    "checkpoint": ("folder", "monitor", "mode"),
    "trainer": ("default_root_dir",),
}
"""Parameters in a group of options that a training sets itself."""

_OR_NONE = (str, NoneType)
_FLAG = (bool,)
_EXPLAIN = Parameter(
    "explain",
    _OR_NONE,
    None,
    "List published rows (ids, first parts or patterns; all without a value), or print the one "
    "with this id and how it was read; and exit.",
)
_FORMAT = Parameter(
    "format", (str,), "text", "Print the table as ``text``, ``markdown`` or ``latex``."
)
_RESUME = Parameter(
    "resume",
    _OR_NONE,
    None,
    "Run folder to resume; only length, devices and logging may be changed.",
)
_THREADS = Parameter(
    "threads",
    (Count, NoneType),
    None,
    "Number of threads. By default OMP_NUM_THREADS, otherwise by the size of the work, at most the "
    "processors of the container.",
)
_OF_ALL = (
    Parameter(
        "import",
        (str, list[str]),
        "",
        "Modules to import, such as ``a,b``: those that define your classes. Opening a file never "
        "imports code.",
    ),
    Parameter(
        "config",
        _OR_NONE,
        None,
        "YAML file of options, results.json of a comparison, or the name of a file that comes with "
        "flowbert (quickstart). Several are allowed, and options on the command line win. null "
        "means no value.",
    ),
    Parameter(
        "print_config",
        _FLAG,
        False,
        "Print all options with their values as YAML, and exit.",
    ),
    Parameter("quiet", _FLAG, False, "Hide progress bars."),
    Parameter(
        "help",
        _OR_NONE,
        None,
        "Show this help, or that of a group, such as ``model``, and exit.",
    ),
)
"""Options of all commands."""

OF_THE_LINE = ("resume", "threads", "explain", *(each.name for each in _OF_ALL))
"""Options that are not arguments of the command's function."""


def summary(command: str) -> str:
    """Description of a command: the first line of its function's docstring."""
    return read_signature(COMMANDS[command]).summary.replace("``", "")


def list_options(command: str, method: str = "flow") -> dict[str, Parameter]:
    """Options of a command by their full names, such as ``model.levels``.

    Args:
        command: Name of the command.
        method: Method of ``fit``, which has those of its module and data.
    """
    sources = [("", COMMANDS[command])]
    if command == "fit" and method in TRAINED_METHODS:
        _, model, data, examples = TRAINED_METHODS[method]
        sources += [("model", model), ("data", data), ("data", examples)]
        sources.append(("checkpoint", _CHECKPOINT))
    options: dict[str, Parameter] = {}
    for group, source in sources:
        options |= _parameters(group, source) if source else {}
    if command == "reproduce":
        options["explain"] = _EXPLAIN
    if command == "compare":
        options["format"] = _FORMAT
    if command == "fit":
        options["resume"] = _RESUME
    if command != "report":
        options["threads"] = _THREADS
    return options | {each.name: each for each in _OF_ALL}


def list_trainer_options() -> dict[str, Parameter]:
    """Options of Lightning's Trainer by their full names; types that it defines are left out."""
    options = _parameters("trainer", _TRAINER)
    for name, default in TRAINER_DEFAULTS.items():
        option = f"trainer.{name}"
        options[option] = options[option]._replace(default=default)
    return options


def _parameters(group: str, source: str) -> dict[str, Parameter]:
    """Parameters of a function or class by the names of their options."""
    options: dict[str, Parameter] = {}
    for each in read_signature(source).parameters:
        left_out = (*OF_THE_LINE, *_SET_BY_RUN.get(group, ()))
        if each.name in left_out or each.types == (NoneType,):  # a mapping, see groups
            continue
        if each.group:
            options |= _parameters(each.name, each.group)
        else:
            options[f"{group}.{each.name}" if group else each.name] = each
    return options

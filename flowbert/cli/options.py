"""The options of each command: the parameters of its function, and of what the function makes."""

from types import NoneType

from flowbert.cli.signatures import Parameter, read_constant, read_signature
from flowbert.numbers import Count

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

_METHODS = {
    "flow": (
        ("model", "flowbert.flows.parameters.FlowOptions"),
        ("data", "flowbert.training.rows.RowsDataModule"),
    ),
    **{
        method: (
            ("model", f"flowbert.methods.{method}.{module}"),
            ("data", "flowbert.methods.text.TextDataModule"),
            ("data", f"flowbert.methods.examples.{method}_examples"),
        )
        for method, module in (
            ("simcse", "SimCSEModule"),
            ("sbert", "SBERTModule"),
            ("mlm", "MLMModule"),
        )
    },
}
"""Groups of options of each method, and the classes and functions that have them."""

_TRAINER = "pytorch_lightning.trainer.trainer.Trainer"
_GROUPS = ("encoder", "model", "data", "checkpoint", "trainer")
_SET_BY_RUN = {
    "model": ("encoder", "dim", "seed"),
    "data": ("digest", "encoder", "examples", "name", "objective", "rows", "seed"),
    "checkpoint": ("folder", "monitor", "mode"),
    "trainer": ("default_root_dir",),
}
"""Parameters in a group of options that a training sets itself."""

_RUN_OPTIONS = {
    "fit": "FitOptions",
    "validate": "RunOptions",
    "test": "RunOptions",
    "predict": "PredictOptions",
}
"""Dataclasses with the options of commands."""

_WITHOUT_GROUPS = ("validate", "test", "predict", "reproduce", "report", "export")
"""Commands whose encoder is a path, or that have none."""

_EXPLAIN = Parameter(
    "explain",
    (str, NoneType),
    None,
    "Print published rows (ids, first parts or patterns) with their settings, and exit.",
)
_RESUME = Parameter(
    "resume",
    (str, NoneType),
    None,
    "Run folder to resume; only length, devices and logging may be changed.",
)
_IMPORT = Parameter(
    "import",
    (str,),
    "",
    "Modules to import, separated by commas: those that define your classes. Opening a file never "
    "imports code.",
)
_THREADS = Parameter(
    "threads",
    (Count, NoneType),
    None,
    "Number of threads. By default OMP_NUM_THREADS, otherwise by the size of the work, at most the "
    "processors of the container.",
)


def summary(command: str) -> str:
    """Description of a command: the first line of its function's docstring."""
    return read_signature(COMMANDS[command]).summary.replace("``", "")


def list_sources(command: str, method: str = "flow") -> list[tuple[str, str]]:
    """Groups of a command's options, and the functions and classes whose parameters they are.

    Args:
        command: Name of the command.
        method: Method of ``fit`` and so on.
    """
    sources = [("", COMMANDS[command])] if command != "fit" else []
    if command in _RUN_OPTIONS:
        sources.append(("", f"flowbert.fitting.run_options.{_RUN_OPTIONS[command]}"))
    if command not in _WITHOUT_GROUPS:
        sources.append(("encoder", "flowbert.encoders.loading.EncoderOptions"))
    if command == "fit" and method in _METHODS:
        checkpoint = "flowbert.training.checkpoints.checkpoint_callbacks"
        sources += [*_METHODS[method], ("checkpoint", checkpoint)]
    return sources


def list_options(command: str, method: str = "flow") -> dict[str, Parameter]:
    """Options of a command by their full names, such as ``model.levels``.

    Args:
        command: Name of the command.
        method: Method of ``fit`` and so on.
    """
    options: dict[str, Parameter] = {}
    for group, source in list_sources(command, method):
        options |= _parameters(group, source)
    if command in TRAINER_COMMANDS:
        for name in (*_GROUPS, "config"):
            options.pop(name, None)
    elif command not in _WITHOUT_GROUPS:
        del options["encoder"]
    if "vectors" in options:  # a file on the command line
        options["vectors"] = options["vectors"]._replace(types=(str, NoneType))
    if command == "reproduce":
        options["explain"] = _EXPLAIN
    if command == "fit":
        options["resume"] = _RESUME
    options["import"] = _IMPORT
    if command != "report":
        options["threads"] = _THREADS
    return options


def list_trainer_options() -> dict[str, Parameter]:
    """Options of Lightning's Trainer by their full names; types that it defines are left out."""
    options = _parameters("trainer", _TRAINER)
    defaults = read_constant("flowbert.fitting.prepare", "TRAINER_DEFAULTS")
    for name, default in defaults.items():
        option = f"trainer.{name}"
        options[option] = options[option]._replace(default=default)
    return options


def option_names(command: str, method: str | None = None) -> list[str]:
    """Names of all options of a command.

    Args:
        command: Name of the command.
        method: Method of ``fit`` and so on, whose options are those of its module; None for all.
    """
    names = ["config", "print_config", "quiet", "help"]
    if command in TRAINER_COMMANDS:
        names += list_trainer_options()
    for each in _METHODS if method is None else [method]:
        names += list_options(command, each)
    return [name for name in dict.fromkeys(names) if name != POSITIONAL.get(command)]


def _parameters(group: str, source: str) -> dict[str, Parameter]:
    """Parameters of a function or class by the names of their options."""
    return {
        f"{group}.{each.name}" if group else each.name: each
        for each in read_signature(source).parameters
        if each.name not in _SET_BY_RUN.get(group, ())
    }

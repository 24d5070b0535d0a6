"""Options without torch: methods that a Trainer trains, defaults, old names, and limits."""

import warnings
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, NamedTuple, ParamSpec, TypeVar

from flowbert.errors import FlowbertWarning
from flowbert.numbers import check_limits

P = ParamSpec("P")
R = TypeVar("R")


class TrainedMethod(NamedTuple):
    """Import paths of the parts of a method; their parameters are its options.

    Attributes:
        module: The LightningModule.
        options: Class with the options of the module.
        data: The data module.
        examples: Function that names the examples; empty for a method of vectors.
    """

    module: str
    options: str
    data: str
    examples: str = ""


TRAINED_METHODS = {
    "flow": TrainedMethod(
        "flowbert.maps.flow_module.FlowModule",
        "flowbert.flows.parameters.FlowOptions",
        "flowbert.training.rows.RowsDataModule",
    ),
    "simcse": TrainedMethod(
        "flowbert.methods.simcse.SimCSEModule",
        "flowbert.methods.simcse.SimCSEModule",
        "flowbert.methods.text.TextDataModule",
        "flowbert.methods.examples.simcse_examples",
    ),
    "sbert": TrainedMethod(
        "flowbert.methods.sbert.SBERTModule",
        "flowbert.methods.sbert.SBERTModule",
        "flowbert.methods.text.TextDataModule",
        "flowbert.methods.examples.sbert_examples",
    ),
    "mlm": TrainedMethod(
        "flowbert.methods.mlm.MLMModule",
        "flowbert.methods.mlm.MLMModule",
        "flowbert.methods.text.TextDataModule",
        "flowbert.methods.examples.mlm_examples",
    ),
}
"""Methods that a Trainer trains; every other one is a map that is fitted in closed form."""

TRAINER_DEFAULTS: dict[str, Any] = {
    "max_epochs": 3,
    "gradient_clip_val": 1.0,
    "log_every_n_steps": 10,
    "num_sanity_val_steps": 0,
    "enable_model_summary": False,
    "logger": False,
}
"""Options of the Trainer where they are others than Lightning's."""

RENAMED: dict[str, str] = {}
"""Present names of options (the last part of their names) by their old ones."""


class OldNameWarning(FlowbertWarning, DeprecationWarning):
    """An option has its old name."""


def renamed(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options by their present names; each old one is an :class:`OldNameWarning`."""
    for old in options.keys() & RENAMED.keys():
        message = f"{old} is called {RENAMED[old]} now"
        warnings.warn(message, OldNameWarning, stacklevel=3)
    return {RENAMED.get(name, name): value for name, value in options.items()}


def takes_options(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function read old names of its arguments, and check the limits of the present ones."""

    @wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> R:
        present = renamed(options)
        check_limits(function, present)
        return function(*args, **present)

    return call

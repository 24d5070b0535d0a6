"""Options without torch: methods that a Trainer trains, those of a flow, defaults."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from typing import Any, NamedTuple, ParamSpec, TypeVar

from flowbert.numbers import Count, NotNegative, Positive, Share, check_limits

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
        "flowbert.options.FlowOptions",
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


@dataclass(eq=False, repr=False)
class GlowOptions:
    """Sizes and layers of a :class:`flowbert.flows.Glow`.

    Args:
        levels: Number of levels; half of the dimensions are split off after every level except
            the last.
        depth: Steps of actnorm, mixing and coupling in each level.
        width: Hidden size of the couplings.
        mixing: ``lu`` (invertible 1x1 convolution), ``reverse`` or ``random``.
        coupling: ``additive``, ``affine``, or the import path of another with its options, as in
            ``mypackage.couplings.Spline:bins=8``.
        mixing_init: Initial ``lu``: ``identity``, ``reverse``, ``random`` or ``rotation``.
        init: ``actnorm``: the actnorms are initialized with a sample, as in the papers;
            ``whitening``: a layer in front of them with mean and covariance of all vectors.
        prior: Density of the latents: ``normal``, or the import path of another with its options,
            as in ``mypackage.priors.StudentT:degrees=5``.
    """

    levels: Count = 2
    depth: Count = 3
    width: Count = 32
    mixing: str = "lu"
    coupling: str = "additive"
    mixing_init: str = "identity"
    init: str = "actnorm"
    prior: str = "normal"

    def glow(self) -> dict[str, Any]:
        """Arguments of a :class:`flowbert.flows.Glow`, without its vector size and seed."""
        return {field.name: getattr(self, field.name) for field in fields(GlowOptions)}


SCHEDULES = ("constant", "linear", "cosine")
"""Schedules of the learning rate."""


@dataclass(eq=False, repr=False)
class FlowOptions(GlowOptions):
    """A flow and its training.

    Args:
        noise: Variance of the noise on the vectors, as a share of their mean variance; None for
            0.05, or with ``init=whitening`` for 0.0001, which a better density needs.
        learning_rate: Peak learning rate of :class:`flowbert.training.optim.BertAdam`.
        weight_decay: Decoupled weight decay.
        schedule: ``constant``, ``linear`` or ``cosine``.
        warmup: Share of the steps over which the learning rate rises.
    """

    noise: NotNegative | None = None
    learning_rate: Positive = 5e-4
    weight_decay: NotNegative = 0.01
    schedule: str = "cosine"
    warmup: Share = 0.0

    @property
    def usual_noise(self) -> float:
        """The noise where none is given; more than after whitening would cost density."""
        return 1e-4 if self.init == "whitening" else 0.05

    def training(self) -> dict[str, Any]:
        """These options by name, the arguments of :class:`flowbert.methods.FlowModule`."""
        options = {
            field.name: getattr(self, field.name) for field in fields(FlowOptions)
        }
        if self.noise is None:
            options["noise"] = self.usual_noise
        return options


TRAINER_DEFAULTS: dict[str, Any] = {
    "max_epochs": 3,
    "gradient_clip_val": 1.0,
    "log_every_n_steps": 10,
    "num_sanity_val_steps": 0,
    "enable_model_summary": False,
    "logger": False,
}
"""Options of the Trainer where they are others than Lightning's."""


def takes_options(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function check the limits of its arguments."""

    @wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> R:
        check_limits(function, options)
        return function(*args, **options)

    return call

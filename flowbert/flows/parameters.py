"""Options of a flow and of its training, named once for the module and for the map."""

from dataclasses import dataclass, fields
from typing import Any

from flowbert.numbers import Count, NotNegative, Positive, Share


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
    """

    levels: Count = 2
    depth: Count = 3
    width: Count = 32
    mixing: str = "lu"
    coupling: str = "additive"
    mixing_init: str = "identity"
    init: str = "actnorm"

    def glow(self) -> dict[str, Any]:
        """Arguments of a :class:`flowbert.flows.Glow`, without its vector size and seed."""
        return {field.name: getattr(self, field.name) for field in fields(GlowOptions)}


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

"""The flow as a scikit-learn transformer and density."""

import copy
from collections.abc import Callable
from numbers import Integral
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array, check_is_fitted
from torch import Tensor

from flowbert.estimators.base import FLOATS, MapTransformer
from flowbert.flows import Glow, load_flow, save_flow
from flowbert.flows.glow import most_levels

_BLOCK = 8192  # rows per pass: bounds the activations
_PARAMETERS = "parameters"  # beside a saved flow: the estimator's arguments


class FlowTransformer(ClassNamePrefixFeaturesOutMixin, MapTransformer):
    """A Glow-style flow fitted by maximum likelihood: :func:`flowbert.fit_flow` under scikit-learn's contract.

    It is fitted in float32, as everywhere here, and applied in float64; rows in float32 give rows in float32. Any D
    will do: of an odd number of dimensions the first half has one more, and a single one has no coupling.

    References:
        On the Sentence Embeddings from Pre-trained Language Models (Li et al., 2020). https://arxiv.org/abs/2011.05864

    Args:
        levels: Most levels of the flow; a D that has no room for so many has as many as it has room for.
        depth: Steps (actnorm, mixing, coupling) per level.
        width: Hidden units of each coupling network.
        mixing: ``lu`` (learned invertible 1x1 convolution), ``reverse`` or ``random``.
        coupling: ``additive`` or ``affine``.
        mixing_init: Start of the learned mixing: ``identity`` or ``rotation``.
        noise: Variance of the Gaussian noise added while fitting, as a share of the mean variance.
        epochs: Passes over the rows; less than one is one pass over that share of them. None: 3, if there are no steps.
        steps: Steps in place of epochs, as many on few rows as on many; None goes by epochs.
        batch_size: Rows per step.
        start_size: Rows that drive the data-dependent start.
        learning_rate: Step size.
        weight_decay: Decoupled weight decay.
        schedule: ``constant``, ``linear`` or ``cosine`` decay to zero.
        warmup: Share of all steps with linearly rising learning rate, in [0, 1).
        random_state: Seed of the start, the shuffling and the noise; a ``RandomState`` or None draws it.
        accelerator: Where it is fitted, as Lightning names it: ``auto``, ``cpu``, ``gpu``; it is applied on the CPU.

    Attributes:
        flow_: The fitted flow, float64.
        seed_: The seed that was used.
        flaw_: Why its figures mean nothing (too few distinct rows); None if they mean something.
        n_features_in_: Size D of the rows.
        feature_names_in_: Names of the columns of the data frame that was fitted on, if it was one.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(256, 8)) * 5 + 3
        >>> flow = FlowTransformer(epochs=1, accelerator="cpu").fit(x)
        >>> flow.transform(x).shape, flow.score_samples(x).shape
        ((256, 8), (256,))
    """

    def __init__(
        self,
        levels: int = 2,
        depth: int = 3,
        width: int = 32,
        mixing: str = "lu",
        coupling: str = "additive",
        mixing_init: str = "identity",
        noise: float = 0.05,
        epochs: float | None = None,
        steps: int | None = None,
        batch_size: int = 64,
        start_size: int = 1024,
        learning_rate: float = 5e-4,
        weight_decay: float = 0.01,
        schedule: str = "cosine",
        warmup: float = 0.0,
        random_state: Any = 0,
        accelerator: str = "auto",
    ) -> None:
        self.levels = levels
        self.depth = depth
        self.width = width
        self.mixing = mixing
        self.coupling = coupling
        self.mixing_init = mixing_init
        self.noise = noise
        self.epochs = epochs
        self.steps = steps
        self.batch_size = batch_size
        self.start_size = start_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.schedule = schedule
        self.warmup = warmup
        self.random_state = random_state
        self.accelerator = accelerator

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit on rows ``(N, D)``, N at least 2; y plays no role. Returns self.

        Raises:
            ValueError: If an argument is out of range, or the rows are not finite numbers of shape ``(N, D)``.
        """
        from flowbert.methods.flow import fit_flow  # Lightning takes a second to import: the maps do without

        rows = self._rows(X, fitting=True, ensure_min_samples=2)
        options = self.get_params(deep=False)
        options["levels"] = min(options["levels"], most_levels(rows.shape[1]))
        self.seed_ = _seed(options.pop("random_state"))
        module = fit_flow(np.array(rows, dtype=np.float32), seed=self.seed_, **options)
        self.flaw_ = module.flaw
        self.flow_ = cast(Glow, module.flow).to("cpu", torch.float64)
        return self

    def transform(self, X: Any) -> npt.NDArray[Any]:
        """Latents of rows: ``(N, D)`` to ``(N, D)``."""
        return self._apply(lambda rows: self.flow_(rows)[0], self._rows(X))

    def inverse_transform(self, X: Any) -> npt.NDArray[Any]:
        """Rows of latents: ``(N, D)`` to ``(N, D)``."""
        check_is_fitted(self)
        return self._apply(lambda rows: self.flow_.inverse(rows)[0], check_array(X, dtype=FLOATS))

    def score_samples(self, X: Any) -> npt.NDArray[Any]:
        """Log density of each row in nats: ``(N,)``."""
        return self._apply(lambda rows: -self.flow_.nll(rows), self._rows(X))

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log density of the rows in nats; y plays no role."""
        return float(self.score_samples(X).mean())

    def save(self, path: str | Path) -> Path:
        """Write one safetensors file, which :func:`flowbert.flows.load_flow` reads, too. Returns its path."""
        check_is_fitted(self)
        parameters = self.get_params(deep=False) | {"random_state": self.seed_}
        metadata = {_PARAMETERS: parameters, "flaw": self.flaw_, **self._saved_names()}
        # Every number is one of float32: nothing is lost.
        return save_flow(copy.deepcopy(self.flow_).float(), path, metadata)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a file of :meth:`save`, or the flow of a run folder, ``model/flow.safetensors``.

        Raises:
            UserError: If the file is missing, damaged, or no flow.
        """
        flow, metadata = load_flow(path)
        options = {name: value for name, value in flow.config.items() if name not in ("dim", "seed")}
        estimator = cls(**metadata.get(_PARAMETERS, options | {"random_state": flow.config["seed"]}))
        estimator.seed_ = estimator.random_state
        estimator.flaw_ = metadata.get("flaw")
        estimator.flow_ = flow.double()
        estimator._restore_features(flow.dim, metadata)
        return estimator

    @torch.no_grad()
    def _apply(self, function: Callable[[Tensor], Tensor], rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        blocks = torch.split(torch.from_numpy(np.array(rows, dtype=np.float64)), _BLOCK)
        result: npt.NDArray[Any] = torch.cat([function(block) for block in blocks]).numpy().astype(rows.dtype)
        return result

    @property
    def _n_features_out(self) -> int:
        return self.flow_.dim


def _seed(random_state: Any) -> int:
    if isinstance(random_state, Integral):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31))

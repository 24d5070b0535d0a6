"""The flow as a map: FlowModule and RowsDataModule under scikit-learn's contract."""

import copy
import tempfile
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Self

import numpy as np
import torch
from sklearn.utils import check_random_state
from torch import Tensor

from flowbert.errors import UserError
from flowbert.maps.base import MAPS, LabelledPairs, Map
from flowbert.numbers import is_count, is_number
from flowbert.vectors import Vectors

_TRAINING = (
    "epochs",
    "steps",
    "batch_size",
    "start_size",
    "held_out",
    "accelerator",
    "random_state",
)
EPOCHS = 3


@MAPS.register("flow")
@dataclass(eq=False, repr=False)
class Flow(Map):
    r"""BERT-flow: a Glow-style flow fitted by :math:`\max \log N(z; 0, I) + \log|\det dz/dx|`.

    Args:
        levels: Number of levels; half of the dimensions leave after each but the last.
        depth: Steps of actnorm, mixing and coupling in each level.
        width: Hidden size of the couplings.
        mixing: ``lu`` (invertible 1x1 convolution), ``reverse`` or ``random``.
        coupling: ``additive`` or ``affine``.
        mixing_init: Initialization of the 1x1 convolutions: ``identity`` or ``rotation``.
        noise: Variance of the noise on the rows as a share of their mean variance.
        epochs: Passes over the rows, or a share of one below 1; None for 3.
        steps: Optimizer steps in place of epochs.
        batch_size: Rows of a batch.
        start_size: Rows that the actnorms start from.
        learning_rate: Peak learning rate.
        weight_decay: Decoupled weight decay.
        schedule: ``constant``, ``linear`` or ``cosine``.
        warmup: Share of the steps in which the learning rate rises.
        held_out: Share of the rows that are left out of the fit.
        random_state: Seed, or a numpy RandomState.
        accelerator: Lightning's accelerator.

    Attributes:
        flow_: The fitted :class:`flowbert.flows.Glow`, in float64.

    References:
        On the Sentence Embeddings from Pre-trained Language Models (Li et al., 2020).
        https://arxiv.org/abs/2011.05864
    """

    seeded = True
    state = ("flow_", "seed_")
    min_samples = 2

    levels: int = 2
    depth: int = 3
    width: int = 32
    mixing: str = "lu"
    coupling: str = "additive"
    mixing_init: str = "identity"
    noise: float = 0.05
    epochs: float | None = None
    steps: int | None = None
    batch_size: int = 64
    start_size: int = 1024
    learning_rate: float = 5e-4
    weight_decay: float = 0.01
    schedule: str = "cosine"
    warmup: float = 0.0
    held_out: float = 0.0
    random_state: Any = 0
    accelerator: str = "auto"

    def module_parameters(self) -> dict[str, Any]:
        """Arguments of :class:`flowbert.methods.FlowModule`, without size and seed."""
        parameters: dict[str, Any] = self.get_params(deep=False)
        return {
            name: value for name, value in parameters.items() if name not in _TRAINING
        }

    def output_dim(self, dim: int) -> int:
        """Check the parameters for rows of size ``dim``, which stays."""
        from flowbert.methods import FlowModule

        for name, value in self.get_params(deep=False).items():
            self.require(name, not isinstance(value, bool), "a number or a name")
        epochs, steps = self.epochs, self.steps
        whole = epochs is None or epochs <= 1 or epochs == int(epochs)
        valid = epochs is None or (is_number(epochs, 1e-9, 1e9) and whole)
        self.require("epochs", valid, "a whole number, or a share of one epoch")
        valid = steps is None or is_count(steps, 1, np.inf)
        self.require("steps", valid, "a whole number of at least 1")
        if epochs is not None and steps is not None:
            raise UserError(
                f"received {steps} and epochs {epochs}; expected one of them",
                argument="steps",
            )
        FlowModule(dim, **self.module_parameters())
        return dim

    def fit(self, X: Any, y: Any = None, pairs: LabelledPairs | None = None) -> Self:
        """Fit on rows ``(N, D)``, N at least 2; y is ignored. Returns self."""
        from flowbert.methods import FlowModule
        from flowbert.training import RowsDataModule
        from flowbert.training.trainer import quiet_trainer

        rows = X
        if not isinstance(X, Vectors):
            rows = torch.cat(list(self._row_blocks(X))).float().cpu().numpy()
        self.output_dim(rows.shape[1])
        self.seed_ = _seed(self.random_state)
        module = FlowModule(rows.shape[1], seed=self.seed_, **self.module_parameters())
        epochs = EPOCHS if self.epochs is None else self.epochs
        data = RowsDataModule(
            rows,
            held_out=self.held_out,
            batch_size=self.batch_size,
            start_size=self.start_size,
            seed=self.seed_,
        )
        with (
            tempfile.TemporaryDirectory() as folder,
            quiet_trainer(
                max_epochs=-1 if self.steps is not None else max(1, int(epochs)),
                max_steps=self.steps or -1,
                limit_train_batches=min(float(epochs), 1.0),  # a whole 1 is one batch
                accelerator=self.accelerator,
                default_root_dir=folder,
            ) as trainer,
        ):
            trainer.fit(module, datamodule=data)
        return self._hold(module)

    @classmethod
    def from_module(cls, module: Any) -> Self:
        """The map of a trained :class:`flowbert.methods.FlowModule`."""
        names = set(cls().module_parameters())
        parameters = {
            name: value for name, value in module.hparams.items() if name in names
        }
        made = cls(**parameters, random_state=module.hparams["seed"])
        made.seed_ = module.hparams["seed"]
        return made._hold(module)

    def _hold(self, module: Any) -> Self:
        """Take a copy of the flow of a trained module."""
        own = copy.deepcopy(module.flow).to("cpu", torch.float64)
        self.flow_ = own.eval().requires_grad_(False)
        self.invalid_reason_ = module.invalid_reason
        self.n_features_in_ = own.dim
        return self

    def saved_parameters(self) -> dict[str, Any]:
        """The parameters, with the seed that was drawn from ``random_state``."""
        return super().saved_parameters() | {"random_state": self.seed_}

    def _apply(self, rows: Tensor) -> Tensor:
        with torch.no_grad():
            latents: Tensor = self.flow_.to(rows.device)(rows)[0]
        return latents

    def _invert(self, rows: Tensor) -> Tensor:
        with torch.no_grad():
            back: Tensor = self.flow_.to(rows.device).inverse(rows)[0]
        return back

    def score_samples(self, X: Any) -> Any:
        """Log density of each row in nats: ``(N,)``."""
        rows = torch.as_tensor(self._rows(X)).to("cpu", torch.float64)
        with torch.no_grad():
            return -self.flow_.cpu().nll(rows).numpy()

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log density of the rows in nats; y is ignored."""
        return float(self.score_samples(X).mean())


def _seed(random_state: Any) -> int:
    if isinstance(random_state, Integral):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31))

"""The flow as a scikit-learn transformer, which trains a FlowModule on a RowsDataModule."""

import copy
import tempfile
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Self

import torch
from sklearn.utils import check_random_state
from torch import Tensor

from flowbert.errors import UserError, check_choice
from flowbert.flows import FlowOptions
from flowbert.flows.glow import check_glow
from flowbert.maps.base import MAPS, LabelledPairs, Map, double_blocks
from flowbert.numbers import Count, HalfAtMost, Positive, TwoOrMore, check_limits
from flowbert.options import SCHEDULES
from flowbert.precision import usual_modes
from flowbert.vectors import Vectors


@MAPS.register("flow")
@dataclass(eq=False, repr=False)
class Flow(FlowOptions, Map):
    r"""BERT-flow: a Glow-style flow fitted by :math:`\max \log N(z; 0, I) + \log|\det dz/dx|`.

    Its parameters are those of :class:`flowbert.flows.FlowOptions`, and:

    Args:
        epochs: Number of passes over the rows; below 1, a share of one pass.
        steps: Number of optimizer steps in place of ``epochs``; None to train ``epochs``.
        batch_size: Number of rows in a batch.
        init_size: Number of rows that the actnorms are initialized with.
        held_out: Share of the rows that is left out of the fit.
        random_state: Seed, or a numpy RandomState.
        accelerator: Lightning's accelerator.

    Attributes:
        flow_: The fitted :class:`flowbert.flows.Glow`, in float64.

    References:
        On the Sentence Embeddings from Pre-trained Language Models (Li et al., 2020).
        https://arxiv.org/abs/2011.05864
    """

    seeded = True
    min_samples = 2

    epochs: Positive = 3
    steps: Count | None = None
    batch_size: Count = 64
    init_size: TwoOrMore = 1024
    held_out: HalfAtMost = 0.0
    random_state: Any = 0
    accelerator: str = "auto"

    def output_dim(self, dim: int) -> int:
        """Check the parameters for rows of size ``dim``, and return this size."""
        check_limits(Flow, vars(self))
        valid = self.epochs <= 1 or self.epochs == int(self.epochs)
        self.require("epochs", valid, "a whole number, or a share of one epoch")
        check_choice("schedule", self.schedule, SCHEDULES)
        check_glow(dim, self)
        return dim

    @usual_modes()
    def fit(self, X: Any, y: Any = None, pairs: LabelledPairs | None = None) -> Self:
        """Fit on rows ``(N, D)``, N at least 2; y is ignored. Returns self."""
        from pytorch_lightning import Trainer

        from flowbert.maps.flow_module import FlowModule
        from flowbert.training import RowsDataModule
        from flowbert.training.trainer import quiet_lightning

        rows, blocks = X, self._row_blocks(X)
        if not isinstance(X, Vectors):
            rows = torch.cat(list(blocks)).float().cpu().numpy()
        self.output_dim(rows.shape[1])
        self.seed_ = _seed(self.random_state)
        module = FlowModule(rows.shape[1], seed=self.seed_, **self.training())
        epochs = float(self.epochs)
        data = RowsDataModule(
            rows,
            held_out=self.held_out,
            batch_size=self.batch_size,
            init_size=self.init_size,
            seed=self.seed_,
        )
        with (
            tempfile.TemporaryDirectory() as folder,
            quiet_lightning(),
            torch.random.fork_rng(),
        ):
            trainer = Trainer(
                max_epochs=-1 if self.steps else max(1, int(epochs)),
                max_steps=self.steps or -1,
                limit_train_batches=1.0 if self.steps else min(epochs, 1.0),
                accelerator=self.accelerator,
                devices=1,
                default_root_dir=folder,
                gradient_clip_val=1.0,
                logger=False,
                enable_checkpointing=False,
                enable_model_summary=False,
                enable_progress_bar=False,
            )
            trainer.fit(module, datamodule=data)
        return self._hold(module)

    @classmethod
    def from_module(cls, module: Any) -> Self:
        """Make the map of a trained :class:`flowbert.methods.FlowModule`.

        It has the parameters of the training, so that :meth:`fit` trains the same flow if the
        Trainer had ``gradient_clip_val=1`` and otherwise its default options.

        Raises:
            UserError: If the module was not trained.
        """
        if not module.flow.initialized:
            raise UserError(
                "received a FlowModule that was not trained; expected a step of Trainer.fit",
                argument="map",
            )
        parameters = module.options | module.fit_parameters
        flow = cls(**parameters, random_state=module.seed)
        flow.seed_ = module.seed
        return flow._hold(module)

    def _hold(self, module: Any) -> Self:
        """Copy the flow of a trained module."""
        flow = copy.deepcopy(module.flow).to("cpu", torch.float64)
        self.flow_ = flow.eval().requires_grad_(False)
        self.invalid_reason_ = module.invalid_reason
        self.n_features_in_ = flow.dim
        return self

    @property
    def text(self) -> str:
        """Name and parameters that are not the default, as ``make_map`` reads them."""
        parameters = self.get_params(deep=False)
        if self.noise == self.usual_noise:
            parameters["noise"] = None
        return MAPS.write(type(self), parameters)

    def used_parameters(self) -> dict[str, Any]:
        """The parameters that a fit uses, with the seed that it drew from ``random_state``."""
        seed = getattr(self, "seed_", self.random_state)
        return super().used_parameters() | self.training() | {"random_state": seed}

    def _apply(self, rows: Tensor) -> Tensor:
        latents: Tensor = self.flow_.to(rows.device)(rows)[0]
        return latents

    def _invert(self, rows: Tensor) -> Tensor:
        back: Tensor = self.flow_.to(rows.device).inverse(rows)[0]
        return back

    def score_samples(self, X: Any) -> Any:
        """Log density of each row in nats: ``(N,)``."""
        scores = [
            self.flow_.to(rows.device).log_prob(rows)
            for rows in double_blocks(self._rows(X))
        ]
        return torch.cat(scores).cpu().numpy()

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log density of the rows in nats; y is ignored."""
        return float(self.score_samples(X).mean())


def _seed(random_state: Any) -> int:
    if isinstance(random_state, Integral):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31))

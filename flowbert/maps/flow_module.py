"""BERT-flow as a LightningModule: a Glow-style flow on vectors, by maximum likelihood."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pytorch_lightning.utilities.types import OptimizerLRScheduler
from torch import Tensor

from flowbert.errors import UserError, warn
from flowbert.flows import FlowOptions, FullPrecision, Glow, bits_per_dim
from flowbert.numbers import Seed
from flowbert.seeding import Stream
from flowbert.training.base import MethodModule
from flowbert.training.optim import BertAdam
from flowbert.training.rows import RowsDataModule
from flowbert.vectors import Vectors
from flowbert.vectors.moments import Moments

RowsBatch = Tensor | NDArray[np.float32]

LIKELIHOOD_SPLITS = ("train", "held_out")

# Share of the noise's standard deviation below which a dimension hardly varies.
_SMALLEST_DEVIATION = 0.1


class FlowModule(FullPrecision, MethodModule):
    r"""Fit a flow to vectors u by :math:`\max \log N(z; 0, I) + \log|\det dz/du|`.

    It trains on a :class:`flowbert.training.RowsDataModule`, and is initialized with its rows when
    the training starts. The loss is logged as ``step/nll`` (nats) and ``step/bits_per_dim``, the
    likelihood in validation as ``train/...`` and ``held_out/...``.

    References:
        On the Sentence Embeddings from Pre-trained Language Models (Li et al., 2020).
        https://arxiv.org/abs/2011.05864

    Args:
        dim: Vector size D.
        seed: Seed of the initialization and the noise.
        **options: Fields of :class:`flowbert.flows.FlowOptions`.

    Attributes:
        flow: The :class:`flowbert.flows.Glow`.
        noise_std: Standard deviation of the noise.
        invalid_reason: Why the fitted flow is undefined (too few distinct vectors), or None.
        fit_parameters: Further parameters of :class:`flowbert.maps.Flow` that the fit has used:
            ``steps``, ``batch_size`` of all processes, ``held_out`` and ``init_size``.

    Raises:
        UserError: If an argument is outside of its limits.
    """

    name = "flow"
    noise_std: Tensor

    def __init__(self, dim: int, seed: Seed = 0, **options: Any) -> None:
        chosen = FlowOptions(**options)
        # Lightning reads the hyper-parameters from this variable.
        options = chosen.training()
        super().__init__(chosen, seed)
        self.save_hyperparameters(options)  # under LightningCLI, those of its parser
        self._options = options
        self.noise: float = options["noise"]
        self.flow = Glow(dim, seed=seed, **chosen.glow())
        self.register_buffer("noise_std", torch.zeros(()))
        self.fit_parameters: dict[str, Any] = {}

    @property
    def options(self) -> dict[str, Any]:
        """Fields of :class:`flowbert.flows.FlowOptions` by name, as the training uses them."""
        return {**self._options, "learning_rate": self.learning_rate}

    def on_train_start(self) -> None:
        """Initialize the flow and set the noise, unless the fit is resumed."""
        if not self.flow.initialized:
            data = self._data()
            self._initialize(data.init_sample(), data.rows)
            self._check_distinct(data.rows)

    def _data(self) -> RowsDataModule:
        datamodule: Any = self.trainer.datamodule  # type: ignore[attr-defined]
        if not isinstance(datamodule, RowsDataModule):
            raise UserError(
                f"received {type(datamodule).__name__}; expected RowsDataModule(vectors)",
                argument="datamodule",
            )
        return datamodule

    def _initialize(self, sample: Tensor, rows: Vectors) -> None:
        """Set the noise by a sample, and initialize the flow with it or with all rows."""
        sample = sample.to(self.device, self.flow.dtype)
        self.noise_std = (self.noise * sample.var(dim=0).mean()).sqrt()
        noisy = sample + self._noise_like(sample, Stream(self.seed, "start noise"))
        if self.flow.config["init"] == "whitening":
            # The flow trains on rows with noise: their covariance is whitened.
            self.flow.initialize(noisy, self._moments(rows))
        else:
            # Dimensions that hardly vary get the noise of the training.
            constant = sample.std(dim=0) < _SMALLEST_DEVIATION * self.noise_std
            self.flow.initialize(torch.where(constant, noisy, sample))
        if self.trainer.world_size > 1:  # machines may round differently
            self.load_state_dict(self.trainer.strategy.broadcast(self.state_dict()))

    def _check_distinct(self, rows: Vectors) -> None:
        """Warn if the rows are too few for a maximum of the likelihood."""
        dim = self.flow.dim
        needed = 2 if self.noise else dim + 1
        distinct = rows.count_distinct(needed)
        if distinct < needed:
            self.invalid_reason = (
                f"a flow of N={distinct} distinct sentences in D={dim} dimensions has no maximal "
                f"likelihood; use noise and at least 2 of them, or more than {dim} without noise"
            )
            warn(self.invalid_reason)

    @property
    def numbers_at_once(self) -> float:
        """Number of values in a batch."""
        return self.flow.dim * self._data().batch_size

    def _parameters_so_far(self) -> dict[str, Any]:
        data = self._data()
        return {
            "steps": self.trainer.global_step,
            "batch_size": data.batch_size * self.trainer.world_size,
            "held_out": data.held_out,
            "init_size": data.init_size,
        }

    def on_train_end(self) -> None:
        """Check the last losses, and keep what the fit has used."""
        super().on_train_end()
        self.fit_parameters = self._parameters_so_far()

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Add what the fit has used so far."""
        checkpoint["fit_parameters"] = self._parameters_so_far()
        super().on_save_checkpoint(checkpoint)

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Restore what the fit has used."""
        super().on_load_checkpoint(checkpoint)
        self.fit_parameters = checkpoint.get("fit_parameters", {})

    def _moments(self, rows: Vectors) -> tuple[Tensor, Tensor]:
        """Mean and covariance of the rows with the noise of the training."""
        moments = Moments(self.flow.dim).update_blocks(rows.blocks())
        identity = torch.eye(self.flow.dim, dtype=torch.float64)
        return moments.mean, moments.covariance() + float(
            self.noise_std
        ) ** 2 * identity

    def _noise_like(self, rows: Tensor, stream: Stream) -> Tensor:
        generator = stream.generator(rows.device)
        # Drawn in float32 in every precision: the same noise.
        noise = torch.randn(
            rows.shape, generator=generator, device=rows.device, dtype=torch.float32
        )
        return self.noise_std * noise.to(rows.dtype)

    def training_step(self, batch: RowsBatch, batch_idx: int) -> Tensor:
        """Mean negative log-likelihood of a batch in bits per dimension."""
        rows = self._rows(batch)
        if self.noise:
            rows = rows + self._noise_like(rows, self.stream("noise"))
        nll = -self.flow.log_prob(rows).mean()
        self.check_loss(nll)
        loss = bits_per_dim(nll, self.flow.dim)
        self.log_dict(
            {"step/nll": nll.detach(), "step/bits_per_dim": loss.detach()},
            sync_dist=True,
        )
        return loss

    def validation_step(
        self, batch: RowsBatch, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """Log the likelihood of fitting or held-out vectors, without noise."""
        rows = self._rows(batch)
        nll = -self.flow.log_prob(rows).mean()
        split = LIKELIHOOD_SPLITS[dataloader_idx]
        self.log_dict(
            {
                f"{split}/nll": nll,
                f"{split}/bits_per_dim": bits_per_dim(nll, self.flow.dim),
            },
            on_epoch=True,
            sync_dist=True,
            add_dataloader_idx=False,
            batch_size=len(rows),
        )

    test_step = validation_step

    def predict_step(self, batch: RowsBatch, batch_idx: int) -> Tensor:
        """Latents of a batch, ``(B, D)``."""
        return self.flow.latents(self._rows(batch))

    def embed_sentences(self, sentences: Sequence[str], start: Tensor) -> Tensor:
        """Latents of the embeddings of sentences, ``(N, D)``."""
        return self.flow.latents(start)

    def configure_optimizers(self) -> OptimizerLRScheduler:
        """BertAdam and the schedule."""
        return self.scheduled(
            BertAdam(
                self.parameters(), self.learning_rate, weight_decay=self.weight_decay
            )
        )

    def _rows(self, batch: RowsBatch) -> Tensor:
        return torch.as_tensor(batch).to(self.device, self.flow.dtype)

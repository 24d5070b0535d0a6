"""BERT-flow as a LightningModule: a Glow-style flow on vectors, by maximum likelihood."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pytorch_lightning.utilities.types import OptimizerLRScheduler
from torch import Tensor
from torch.utils.data import DistributedSampler, RandomSampler, SequentialSampler

from flowbert.errors import warn
from flowbert.flows import FlowOptions, FullPrecision, Glow, bits_per_dim
from flowbert.numbers import Seed
from flowbert.seeding import Stream
from flowbert.training.base import MethodModule
from flowbert.training.callbacks import data_in_use
from flowbert.training.optim import BertAdam
from flowbert.training.rows import RowsDataModule
from flowbert.vectors import Vectors, as_vectors
from flowbert.vectors.moments import Moments

RowsBatch = Tensor | NDArray[np.float32]

LIKELIHOOD_SPLITS = ("train", "held_out")

_INITIAL_ROWS = 1024  # rows of a DataLoader that the actnorms are initialized with

# Samplers that draw from all rows of a data set.
_ALL_ROWS = (RandomSampler, SequentialSampler, DistributedSampler)

_USUAL_BATCH = 64  # if a loader has no batch size

# Share of the noise's standard deviation below which a dimension hardly varies.
_SMALLEST_DEVIATION = 0.1


class FlowModule(FullPrecision, MethodModule):
    r"""Fit a flow to vectors u by :math:`\max \log N(z; 0, I) + \log|\det dz/du|`.

    It trains on batches ``(B, D)`` of a :class:`flowbert.training.RowsDataModule`, or of any
    DataLoader; a batch may also be a list of one tensor. When the training starts, the flow is
    initialized with rows of the data set, or with the first batch of an iterable.

    The loss is logged as ``step/nll`` (nats) and ``step/bits_per_dim``. Validation logs the
    likelihood as ``train/...`` and ``held_out/...``, or with other loaders as ``val/...``,
    ``val_1/...`` and so on.

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
        fit_parameters: Other parameters of :class:`flowbert.maps.Flow` that the fit has used:
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
        """The fields of :class:`flowbert.flows.FlowOptions` that the training uses, by name."""
        return {**self._options, "learning_rate": self.learning_rate}

    def on_train_start(self) -> None:
        """Initialize the flow and set the noise, unless the fit is resumed."""
        super().on_train_start()
        if self.flow.initialized:
            return
        rows = self._fitted_rows()
        if rows is not None:
            self._initialize(rows.init_sample(), rows.rows)
            self._check_distinct(rows.rows)

    def on_train_batch_start(self, batch: RowsBatch, batch_idx: int) -> None:
        """Initialize the flow with the first batch of a loader that can be read only once."""
        if not self.flow.initialized:
            rows = self._rows(batch)
            self._initialize(rows, as_vectors(rows))

    def _initialize(self, sample: Tensor, rows: Vectors) -> None:
        """Set the noise from a sample, and initialize the flow with the sample or all rows."""
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
        return self.flow.dim * self._batch_size

    @property
    def _batch_size(self) -> int:
        sources: list[Any] = [data_in_use(self.trainer), self.trainer.train_dataloader]
        sizes = [getattr(source, "batch_size", None) for source in sources]
        return next((size for size in sizes if size), _USUAL_BATCH)

    def _parameters_so_far(self) -> dict[str, Any]:
        datamodule = data_in_use(self.trainer)
        return {
            "steps": self.trainer.global_step,
            "batch_size": self._batch_size * self.trainer.world_size,
            "held_out": getattr(datamodule, "held_out", 0.0),
            "init_size": getattr(datamodule, "init_size", _INITIAL_ROWS),
        }

    def on_train_end(self) -> None:
        """Check the last losses, and store the parameters that the fit has used."""
        super().on_train_end()
        self.fit_parameters = self._parameters_so_far()

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Add the parameters that the fit has used so far."""
        checkpoint["fit_parameters"] = self._parameters_so_far()
        super().on_save_checkpoint(checkpoint)

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Restore the parameters that the fit has used."""
        super().on_load_checkpoint(checkpoint)
        self.fit_parameters = checkpoint.get("fit_parameters", {})

    def _fitted_rows(self) -> RowsDataModule | None:
        """The data module, or rows of a loader's data set; None if it can be read only once."""
        datamodule = data_in_use(self.trainer)
        if hasattr(datamodule, "init_sample"):
            return datamodule  # type: ignore[no-any-return]
        loader: Any = self.trainer.train_dataloader
        if type(getattr(loader, "sampler", None)) not in _ALL_ROWS:
            return None
        dataset, random = loader.dataset, Stream(self.seed, "start sample").rng()
        order = random.permutation(len(dataset))[:_INITIAL_ROWS].tolist()
        rows = self._rows(loader.collate_fn([dataset[i] for i in order]))
        return RowsDataModule(rows, init_size=_INITIAL_ROWS, seed=self.seed)

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
        split = "test" if self.trainer.testing else "val"
        if dataloader_idx:
            split += f"_{dataloader_idx}"
        if hasattr(data_in_use(self.trainer), "likelihood_rows"):
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

    def _rows(self, batch: Any) -> Tensor:
        if isinstance(batch, list | tuple):
            (batch,) = batch
        return torch.as_tensor(batch).to(self.device, self.flow.dtype)

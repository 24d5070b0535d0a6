"""BERT-flow as a LightningModule: a Glow-style flow on frozen sentence embeddings, by maximum likelihood."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from pytorch_lightning.utilities.types import OptimizerLRScheduler
from torch import Tensor

from flowbert.calibration.few_rows import few_rows
from flowbert.encoders import SentenceEncoder
from flowbert.errors import FlowbertWarning, UserError
from flowbert.flows import FullPrecision, Glow, save_flow
from flowbert.losses import bits_per_dim
from flowbert.modules.base import EmbeddingModule, Transform
from flowbert.seeding import Stream
from flowbert.training.lightning_adapter import weight_of
from flowbert.training.optim import BertAdam
from flowbert.vectors import VectorTable

Batch = Tensor | npt.NDArray[np.float32] | dict[str, Tensor]
"""Embeddings ``(B, D)``, or token features for the encoder."""
SPLITS = ("train", "held_out")

_DROWNED = 0.1  # share of the noise's standard deviation below which a dimension is lost in it


class FlowModule(FullPrecision, EmbeddingModule):
    r"""Fit a flow by :math:`\max \log N(z; 0, I) + \log|\det dz/du|` over embeddings u of a frozen encoder.

    The loss is in bits per dimension, :math:`-\log p / (D \ln 2)`, as in the official code, so that gradient clipping
    means the same at every D. The flow's data-dependent start runs once, before the first step, on the data module's
    start sample. Flow, noise and loss stay in float32 (or float64) whatever the trainer's precision.

    References:
        On the Sentence Embeddings from Pre-trained Language Models (Li et al., 2020). https://arxiv.org/abs/2011.05864

    Args:
        dim: Embedding size D; default: the encoder's.
        encoder: The frozen encoder, or a table of vectors in its place; default: that of the data module, or of the
            checkpoint that is loaded next.
        levels: Levels of the flow; each halves what the one before left.
        depth: Steps (actnorm, mixing, coupling) per level.
        width: Hidden units of each coupling network.
        mixing: ``lu`` (learned invertible 1x1 convolution), ``reverse`` (the official code's), or ``random``.
        coupling: ``additive`` or ``affine``.
        mixing_init: Start of the learned mixing: ``identity`` or ``rotation``.
        noise: Variance of the Gaussian noise added to the embeddings while fitting, as a share of their mean variance
            over the start sample; stands in for the encoder dropout that the official code left on. 0: none.
        learning_rate: Step size of Adam without bias correction.
        weight_decay: Decoupled weight decay on all parameters of the flow.
        schedule: ``constant``, ``linear`` or ``cosine`` decay to zero over the run.
        warmup: Share of all steps with linearly rising learning rate, in [0, 1).
        seed: Seed of the flow's random start.

    Raises:
        UserError: If an option is outside what is allowed, or D does not fit the levels.

    Example:
        >>> module = FlowModule(dim=8, levels=1, depth=1)
        >>> module.embed(torch.zeros(2, 8)).shape
        torch.Size([2, 8])
    """

    def __init__(
        self,
        dim: int | None = None,
        encoder: SentenceEncoder | VectorTable | None = None,
        levels: int = 2,
        depth: int = 3,
        width: int = 32,
        mixing: str = "lu",
        coupling: str = "additive",
        mixing_init: str = "identity",
        noise: float = 0.05,
        learning_rate: float = 5e-4,
        weight_decay: float = 0.01,
        schedule: str = "cosine",
        warmup: float = 0.0,
        seed: int = 0,
    ) -> None:
        super().__init__(
            learning_rate=learning_rate, weight_decay=weight_decay, schedule=schedule, warmup=warmup, seed=seed
        )
        self.flow: Glow | None = None
        self._last_batch: Tensor | None = None  # to find the layer where a loss ceased to be finite
        self.register_buffer("noise_std", torch.zeros(()))
        if dim is not None:
            self._build(dim)
        if encoder is not None:
            self._use_encoder(encoder)

    def _use_encoder(self, encoder: SentenceEncoder | VectorTable) -> None:
        """Fit on an encoder's embeddings, by a flow of their size if that was left open.

        Raises:
            UserError: If ``dim`` was given and is not the encoder's.
        """
        super()._use_encoder(encoder)
        if self.flow is None:
            self._build(encoder.dim)
        elif self.flow.dim != encoder.dim:
            raise UserError(f"dim: received {self.flow.dim}; allowed with this encoder: {encoder.dim}")

    def configure_model(self) -> None:
        """Take the data module's encoder where none was given."""
        encoder = getattr(self._datamodule(), "encoder", None) if self.flow is None else None
        if encoder is not None:
            self._use_encoder(encoder)

    def _build(self, dim: int) -> None:
        self.hparams["dim"] = dim
        names = ("levels", "depth", "width", "mixing", "coupling", "mixing_init", "seed")
        self.flow = Glow(dim, **{name: self.hparams[name] for name in names})

    def _flow(self) -> Glow:
        if self.flow is None:
            raise RuntimeError("FlowModule has no flow yet: give dim or encoder")
        return self.flow

    # -------------------------------------------------------------- training

    def on_fit_start(self) -> None:
        """Start the flow's actnorms and set the noise from the start sample; a resumed flow is left as it is.

        Too few distinct sentences make the likelihood meaningless: a warning says so, and :attr:`flaw` keeps it.
        """
        flow = self._flow()
        if self.has_encoder:
            self.encoder.to(self.device)
        if flow.initialized:
            return
        datamodule = self._datamodule()
        sample: Tensor = datamodule.start_sample().to(self.device)
        self.noise_std = (self.hparams["noise"] * sample.var(dim=0).mean()).sqrt()
        flow.initialize(self._start_from(sample))
        if self.trainer.world_size > 1:  # machines may round differently, and parameters are never compared again
            state = {"flow": flow.state_dict(), "noise_std": self.noise_std}
            first = self.trainer.strategy.broadcast(state)
            flow.load_state_dict(first["flow"])
            self.noise_std = first["noise_std"].to(self.device)
        self.flaw = few_rows(datamodule.distinct_examples(), flow.dim, self.hparams["noise"])
        if self.flaw is not None:
            warnings.warn(self.flaw, FlowbertWarning, stacklevel=2)

    def _start_from(self, sample: Tensor) -> Tensor:
        """The sample, with the training's noise in dimensions that hardly vary.

        In these the noise is what is trained on; scaled by their own spread it would drown all other dimensions.
        """
        drowned = sample.std(dim=0) < _DROWNED * self.noise_std
        noise = _gaussian(sample, Stream(self.hparams["seed"], "start noise"))
        return torch.where(drowned, sample + self.noise_std * noise, sample)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Loss of one batch in bits per dimension."""
        embeddings = self._embeddings(batch)
        if self.hparams["noise"]:
            embeddings = embeddings + self.noise_std * _gaussian(embeddings, self.stream("noise", batch_idx))
        nll = self._flow().nll(embeddings).mean()
        self._last_batch = embeddings.detach()
        self.check_loss(nll, batch_idx)
        loss = bits_per_dim(nll, embeddings.shape[1])
        joined, trainer = nll.detach(), self._attached_trainer()
        if trainer is not None and trainer.world_size > 1:
            joined = trainer.strategy.reduce(joined.clone())  # the mean: batches of all processes are of one size
        values = {"step/nll": joined, "step/bits_per_dim": bits_per_dim(joined, embeddings.shape[1])}
        self.log_dict(values)
        return loss

    def check_losses(self) -> None:
        """Look at the losses that nobody has looked at yet.

        Raises:
            UserError: If one is not finite; the message names the parameter or layer that is not, if there is one.
        """
        try:
            super().check_losses()
        except UserError:
            self._flow().check_finite(self._last_batch)
            raise

    def _embeddings(self, batch: Batch) -> Tensor:
        if isinstance(batch, dict):
            embeddings: Tensor = self.encoder(batch)
        else:
            embeddings = torch.as_tensor(batch).to(self.device)
        return embeddings.to(next(self._flow().parameters()).dtype)

    def configure_optimizers(self) -> OptimizerLRScheduler:
        """Adam without bias correction, and the learning-rate schedule per step."""
        h = self.hparams
        return self.scheduled(BertAdam(self.parameters(), lr=h["learning_rate"], weight_decay=h["weight_decay"]))

    # ------------------------------------------------------------ likelihood

    def validation_step(self, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> None:
        """Log nll (nats) and bits per dimension, without noise, of fitting and of held-out sentences."""
        del batch_idx
        embeddings = self._embeddings(batch)
        nll = self._flow().nll(embeddings).mean()
        split = SPLITS[dataloader_idx]
        values = {f"{split}/nll": nll, f"{split}/bits_per_dim": bits_per_dim(nll, embeddings.shape[1])}
        weight = weight_of(len(embeddings))
        self.log_dict(values, on_epoch=True, add_dataloader_idx=False, batch_size=weight, sync_dist=True)

    test_step = validation_step

    # ------------------------------------------------------------- embedding

    def embed(self, embeddings: Tensor) -> Tensor:
        """Latents of raw embeddings: ``(N, D)`` -> ``(N, D)``, float32 on the device of the embeddings."""
        return self._flow().latents(embeddings)

    def predict_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Latents of a batch of raw embeddings, ``(B, D)``."""
        del batch_idx
        return self.embed(self._embeddings(batch))

    def transforms(self) -> dict[str, Transform]:
        """One map, ``flow``."""
        return {"flow": self.embed}

    def save_fitted(self, folder: Path) -> None:
        """Write ``flow.safetensors``: the parameters, and which encoder they belong to."""
        metadata: dict[str, Any] = {"encoder": self.encoder.describe() | self.encoder.key()} if self.has_encoder else {}
        metadata["flaw"] = self.flaw
        save_flow(self._flow(), folder / "flow.safetensors", metadata)


def _gaussian(like: Tensor, stream: Stream) -> Tensor:
    """Standard normal numbers of the shape and device of a tensor: the same ones for every type."""
    numbers = torch.randn(like.shape, generator=stream.generator(like.device), device=like.device, dtype=torch.float32)
    return numbers.to(like.dtype)

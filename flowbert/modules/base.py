"""What every training method offers to the callbacks and to a run."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from pytorch_lightning import Callback, LightningModule
from pytorch_lightning.utilities.types import OptimizerLRScheduler
from torch import Tensor
from torch.optim import Optimizer

from flowbert.encoders import SentenceEncoder, check_same_encoder
from flowbert.encoders.settings import settings_of
from flowbert.encoders.token_counts import counts_from
from flowbert.errors import UserError
from flowbert.seeding import Stream
from flowbert.training.fast import FastTraining
from flowbert.training.lightning_adapter import batches_processed
from flowbert.training.limits import check_limits
from flowbert.training.schedules import check_schedule, make_schedule

Transform = Callable[[Tensor], Tensor]
_LOOK_EVERY = 50  # batches, on an accelerator
_OF_ENCODER = ("encoder_key", "encoder", "counts", "tokenizer")  # what a checkpoint may say of its encoder


class EmbeddingModule(LightningModule, ABC):
    """A LightningModule that ends in sentence embeddings.

    A subclass says how raw embeddings are had (:meth:`sentence_embeddings`), which maps on top of them it offers
    (:meth:`transforms`), and how the fitted result is saved (:meth:`save_fitted`). All arguments of its constructor
    but ``encoder`` and ``loss`` are hyper-parameters; it ends with ``_use_encoder``, if it is given one.

    A checkpoint says which encoder it belongs to and where that came from, so that ``load_from_checkpoint`` needs
    nothing else: the encoder is loaded from there, and refused if it is another by now.

    Args:
        learning_rate: Largest step size of the optimizer.
        weight_decay: Decoupled weight decay.
        schedule: ``linear``, ``cosine`` or ``constant`` after the warm-up.
        warmup: Share of all steps with linearly rising learning rate, in [0, 1).
        seed: Seed of everything random in the module.

    Raises:
        UserError: If an option is outside what is allowed.
    """

    frozen_encoder = True  # raw embeddings never change: they may be stored
    trained = True  # there are parameters to train

    def __init__(
        self,
        *,
        learning_rate: float = 2e-5,
        weight_decay: float = 0.01,
        schedule: str = "linear",
        warmup: float = 0.1,
        seed: int = 0,
    ) -> None:
        super().__init__()
        check_schedule(schedule, warmup)
        self.save_hyperparameters(ignore=["encoder", "loss"])
        check_limits(**self.hparams)
        # A plain list hides the encoder from nn.Module: frozen weights belong in no checkpoint and to no optimizer.
        self._encoders: list[SentenceEncoder] = []
        self._saved: dict[str, Any] = {}  # of a checkpoint: what the encoder was, until it is loaded
        self.flaw: str | None = None  # why the figures of what was fitted mean nothing, if they do
        self._gradients: dict[str, Tensor] = {}
        self._unseen_losses: list[tuple[int, Tensor]] = []

    # --------------------------------------------------------------- encoder

    @property
    def encoder(self) -> SentenceEncoder:
        """The encoder given to the constructor, or the one that a checkpoint belongs to."""
        if not self._encoders and self._saved:
            self._use_encoder(self.load_encoder(self._saved))
        if not self._encoders:
            name = type(self).__name__
            raise RuntimeError(f"{name} has no encoder: give {name}(encoder=...), or use {name}.load_from_checkpoint")
        return self._encoders[0]

    @property
    def has_encoder(self) -> bool:
        """Whether there is one, given or saved."""
        return bool(self._encoders or self._saved)

    def _use_encoder(self, encoder: SentenceEncoder) -> None:
        """Learn from the embeddings of an encoder: the end of the constructor, or of loading a checkpoint.

        Raises:
            UserError: If it is not the one that the module's checkpoint belongs to.
        """
        if self._saved:
            check_same_encoder(self._saved["encoder_key"], self.identity_of(encoder), "checkpoint")
        self._encoders = [encoder]

    def identity_of(self, encoder: SentenceEncoder) -> dict[str, Any]:
        """What of an encoder must be the same for the parameters to belong to it."""
        return encoder.key()

    def load_encoder(self, saved: Mapping[str, Any]) -> SentenceEncoder:
        """The encoder that a checkpoint names, from where it came from."""
        settings = settings_of(saved["encoder"])
        return SentenceEncoder.from_pretrained(**settings, frozen=self.frozen_encoder, counts=counts_from(saved))

    def check_data(self, datamodule: Any) -> None:
        """Find out whether the data are such that this method can train on them.

        Raises:
            UserError: If they are not.
        """

    # ------------------------------------------------------------- embedding

    def sentence_embeddings(self, sentences: Sequence[str]) -> Tensor:
        """Raw embeddings of shape ``(N, D)`` on the CPU, before any of :meth:`transforms`."""
        embeddings: Tensor = self._datamodule().embeddings(sentences)
        return embeddings

    def start_embeddings(self, sentences: Sequence[str]) -> Tensor:
        """Raw embeddings before any training, ``(N, D)`` on the CPU; the same as ever if the encoder is frozen."""
        return self.sentence_embeddings(sentences)

    @abstractmethod
    def transforms(self) -> dict[str, Transform]:
        """Maps from raw embeddings to this method's, by the name they have in the tables."""

    @abstractmethod
    def save_fitted(self, folder: Path) -> None:
        """Write the fitted result into ``folder``; a frozen encoder's weights are no part of it."""

    # -------------------------------------------------------------- training

    def configure_callbacks(self) -> list[Callback]:
        """What makes a CPU fast, for the time of the training."""
        return [FastTraining()]

    def scheduled(self, optimizer: Optimizer) -> OptimizerLRScheduler:
        """An optimizer with this module's schedule, per step."""
        total = int(self.trainer.estimated_stepping_batches)
        scheduler = make_schedule(optimizer, self.hparams["schedule"], self.hparams["warmup"], total)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    def stream(self, name: str, batch: int = 0) -> Stream:
        """Random numbers of a batch of this epoch.

        Args:
            name: One of :data:`flowbert.seeding.STREAMS`.
            batch: Number of the batch in the epoch.
        """
        return Stream(self.hparams["seed"], name, self.current_epoch, batch, self.global_rank)

    def check_loss(self, loss: Tensor, batch_idx: int) -> None:
        """Stop the training at a loss that is not finite.

        On an accelerator losses are looked at 50 at a time, and before a checkpoint is written: reading one waits for
        the device.

        Raises:
            UserError: If one is not finite; the message names the first step.
        """
        self._unseen_losses.append((self.global_step, loss.detach()))
        if self.device.type == "cpu" or (batch_idx + 1) % _LOOK_EVERY == 0:
            self.check_losses()

    def check_losses(self) -> None:
        """Look at the losses that nobody has looked at yet.

        Raises:
            UserError: If one is not finite.
        """
        unseen, self._unseen_losses = self._unseen_losses, []
        if not unseen or bool(torch.isfinite(torch.stack([loss for _, loss in unseen])).all()):
            return
        step, loss = next((step, loss.item()) for step, loss in unseen if not torch.isfinite(loss))
        raise UserError(
            f"training: the loss is {loss} at step {step}; allowed: a lower learning_rate (received "
            f"{self.hparams['learning_rate']}), or a gradient_clip_val"
        )

    def on_train_start(self) -> None:
        """Go on with the gradients of a checkpoint that was written while they accumulated."""
        for name, parameter in self.named_parameters():
            if name in self._gradients:
                parameter.grad = self._gradients[name].to(parameter.device)
        self._gradients = {}

    # ----------------------------------------------------------- checkpoints

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Record which encoder and which corpus the parameters belong to, and gradients that are accumulating."""
        self.check_losses()
        if self._encoders:
            checkpoint["encoder_key"] = self.identity_of(self.encoder)
            checkpoint["encoder"] = self.encoder.describe()
            if self.encoder.counts is not None:
                checkpoint["counts"] = self.encoder.counts.state()
        if hasattr(self._datamodule(), "describe_corpus"):
            checkpoint["corpus"] = self._datamodule().describe_corpus()
        checkpoint["module"], checkpoint["flaw"] = type(self).__name__, self.flaw
        if self._accumulating():
            gradients = {name: p.grad for name, p in self.named_parameters() if p.grad is not None}
            checkpoint["gradients"] = gradients

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Refuse the parameters of another method or encoder, and to go on with a fit on another corpus.

        Raises:
            UserError: If the checkpoint was made with other weights, layers, pooling, length or precision.
        """
        method = checkpoint.get("module", type(self).__name__)
        if method != type(self).__name__:
            raise UserError(f"ckpt_path: the checkpoint is of {method}; allowed: one of {type(self).__name__}")
        fitting = self._attached_trainer() is not None and self.trainer.state.fn == "fit"
        if fitting and "corpus" in checkpoint and hasattr(self._datamodule(), "check_corpus"):
            self._datamodule().check_corpus(checkpoint["corpus"])
        self._gradients = dict(checkpoint.get("gradients", {}))
        self.flaw = checkpoint.get("flaw")
        if "encoder_key" not in checkpoint:
            return
        if self._encoders:
            counts = counts_from(checkpoint)
            if self.encoder.needs_counts and counts is not None:
                self.encoder.use_counts(counts)
            check_same_encoder(checkpoint["encoder_key"], self.identity_of(self.encoder), "checkpoint")
        else:
            self._saved = {name: checkpoint[name] for name in _OF_ENCODER if name in checkpoint}

    def _accumulating(self) -> bool:
        """Whether gradients of some batches wait for others."""
        trainer = self._attached_trainer()
        if trainer is None or not (trainer.training or trainer.validating):
            return False
        done = batches_processed(trainer)
        return bool(done % trainer.accumulate_grad_batches) and done < trainer.num_training_batches

    def _attached_trainer(self) -> Any:
        try:
            return self.trainer
        except RuntimeError:  # a module without a trainer
            return None

    def _datamodule(self) -> Any:
        return getattr(self._attached_trainer(), "datamodule", None)

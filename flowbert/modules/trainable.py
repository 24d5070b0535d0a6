"""What the methods that train the encoder itself have in common."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from pytorch_lightning.plugins.precision import Precision
from pytorch_lightning.utilities.enums import GradClipAlgorithmType
from pytorch_lightning.utilities.types import OptimizerLRScheduler
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from flowbert.encoders import SentenceEncoder
from flowbert.encoders.cpu.training import fast_training
from flowbert.encoders.saving import write_encoder
from flowbert.errors import UserError
from flowbert.modules.base import EmbeddingModule
from flowbert.training.grad_cache import encode_cached
from flowbert.training.schedules import warmup_then


class TrainableEncoderModule(EmbeddingModule):
    """A method whose trained encoder gives the embeddings: no map on top of it.

    The encoder is part of the module, and so of its checkpoints. A subclass sets the hyper-parameters
    ``learning_rate``, ``weight_decay``, ``schedule``, ``warmup``, ``dropout`` and ``chunk_size``.
    """

    frozen_encoder = False  # embeddings change with every step: nobody may keep them
    name: str  # of the method in the tables

    def check_options(self, learning_rate: float, weight_decay: float, dropout: float | None) -> None:
        """Raise a UserError for an option outside what is allowed."""
        if learning_rate <= 0:
            raise UserError(f"model.learning_rate: received {learning_rate}; allowed: above 0")
        if weight_decay < 0:
            raise UserError(f"model.weight_decay: received {weight_decay}; allowed: 0 or more")
        if dropout is not None and not 0 <= dropout < 1:
            raise UserError(f"model.dropout: received {dropout}; allowed: 0 to below 1, or null for the encoder's own")

    def connect(self, encoder: SentenceEncoder) -> None:
        """Give the encoder to train; its dropout is set here if the options say so.

        Raises:
            UserError: If the encoder is frozen or in half precision.
        """
        if encoder.frozen:
            raise UserError(f"{type(self).__name__}: received a frozen encoder; allowed: SentenceEncoder(frozen=False)")
        if encoder.dtype != torch.float32:
            raise UserError(
                f"encoder.dtype: received {encoder.dtype}; allowed in training: float32, with trainer.precision "
                "bf16-mixed or 16-mixed for speed"
            )
        super().connect(encoder)
        self.trained_encoder = encoder
        self._start = encoder.describe()
        if self.hparams["dropout"] is not None:
            set_dropout(encoder.backbone, self.hparams["dropout"])
        encoder.train()

    # -------------------------------------------------------------- training

    def on_fit_start(self) -> None:
        """Refuse a trainer that keeps the weights in half precision.

        Raises:
            UserError: If it does.
        """
        if self.encoder.dtype.itemsize < torch.float32.itemsize:
            raise UserError(
                f"trainer.precision: received {self.trainer.precision}; allowed when the encoder is trained: 32-true, "
                "bf16-mixed, 16-mixed (weights and losses stay in float32)"
            )

    def on_train_start(self) -> None:
        """Choose the way through the encoder that is fastest in training on this device."""
        super().on_train_start()
        self._fast = ExitStack()
        self._fast.enter_context(fast_training(self.encoder))

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        """Draw the dropout masks of this batch from a stream of its own."""
        del batch
        self.stream("dropout", batch_idx).seed_torch(self.device)

    def on_train_end(self) -> None:
        """Leave a network that takes padded features like any other."""
        self._fast.close()

    def embed_sides(self, batch: dict[str, Any]) -> Tensor:
        """Embeddings of a batch's sentences, side by side: ``(G, B, D)``, with the gradient of the encoder."""
        chunk_size = self.hparams["chunk_size"] if torch.is_grad_enabled() else None
        rows = encode_cached(self.encoder.embed_chunks, batch["chunks"], chunk_size)
        return rows[batch["places"]]

    def configure_optimizers(self) -> OptimizerLRScheduler:
        """AdamW, biases and layer norms spared from weight decay, and the learning rate per step."""
        h = self.hparams
        trained = [p for p in self.parameters() if p.requires_grad]
        groups = [
            {"params": [p for p in trained if p.ndim > 1], "weight_decay": h["weight_decay"]},
            {"params": [p for p in trained if p.ndim <= 1], "weight_decay": 0.0},
        ]
        # Fused steps unscale float16 gradients on their own, which forbids to clip them.
        fused = self.trainer.precision != "16-mixed"
        optimizer = torch.optim.AdamW(groups, lr=h["learning_rate"], fused=fused)
        factor = warmup_then(h["schedule"], h["warmup"], int(self.trainer.estimated_stepping_batches))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": LambdaLR(optimizer, factor), "interval": "step"}}

    def configure_gradient_clipping(
        self, optimizer: Optimizer, gradient_clip_val: float | None = None, gradient_clip_algorithm: str | None = None
    ) -> None:
        """Clip as the trainer's options say."""
        plugin, value = self.trainer.precision_plugin, gradient_clip_val or 0.0
        algorithm = GradClipAlgorithmType(gradient_clip_algorithm or GradClipAlgorithmType.NORM)
        # Under mixed precision Lightning refuses fused optimizers, for float16's sake; bfloat16 gradients are unscaled.
        Precision.clip_gradients(plugin, optimizer, value, algorithm)

    # ------------------------------------------------------------- embedding

    def sentence_embeddings(self, sentences: Sequence[str]) -> Tensor:
        """Embeddings with the weights of this moment, ``(N, D)``, float32 on the CPU."""
        return torch.from_numpy(self.encoder.encode(list(sentences)))

    def start_embeddings(self, sentences: Sequence[str]) -> Tensor:
        """Embeddings of the encoder that the training started from, also in a resumed run: ``(N, D)`` on the CPU."""
        start = SentenceEncoder.from_pretrained(**self._start).to(self.device)
        return torch.from_numpy(start.encode(list(sentences)))

    def predict_step(self, batch: list[str], batch_idx: int) -> Tensor:
        """Embeddings of a list of sentences."""
        del batch_idx
        return self.sentence_embeddings(batch)

    def transforms(self) -> dict[str, Any]:
        """The identity, under the method's name: the encoder itself is what was trained."""
        return {self.name: lambda embeddings: embeddings}

    # ---------------------------------------------------------------- saving

    def identity_of(self, encoder: SentenceEncoder) -> dict[str, Any]:
        """Tokenizer, configuration, layers, pooling and length: the weights are in the checkpoint."""
        return encoder.kind()

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Record which kind of encoder the weights belong to, and what the training started from."""
        super().on_save_checkpoint(checkpoint)
        checkpoint["encoder"] = self._start

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Refuse weights of another kind of encoder; without an encoder, build the network that they belong to.

        Raises:
            UserError: If they were trained with another tokenizer, configuration, layers, pooling or length.
        """
        super().on_load_checkpoint(checkpoint)
        self.load_saved_encoder()  # the network must be there before its weights are

    def saved_backbone(self) -> tuple[Any, str]:
        """The network to save, and the pooling that makes it give this method's embeddings."""
        return self.encoder.backbone, self.encoder.pooling

    def save_fitted(self, folder: Path) -> None:
        """Write ``encoder/``: the trained encoder as a folder that transformers loads, and how to use it.

        ``flowbert.json`` in it holds ``layers``, ``pooling`` and ``max_length``. The folder appears complete or not at
        all; an older one is replaced.
        """
        backbone, pooling = self.saved_backbone()
        settings = {"layers": list(self.encoder.layers), "pooling": pooling, "max_length": self.encoder.max_length}
        write_encoder(folder / "encoder", backbone, self.encoder.tokenizer, settings)


def _dropouts(backbone: nn.Module) -> list[Any]:
    # By name: some backbones bring a class of their own.
    return [module for module in backbone.modules() if type(module).__name__.endswith("Dropout")]


def set_dropout(backbone: nn.Module, rate: float) -> None:
    """Set the rate of every dropout layer of a backbone.

    Raises:
        UserError: If it has none.
    """
    layers = _dropouts(backbone)
    if not layers:
        raise UserError(f"model.dropout: received {rate}, but the encoder has no dropout layer; allowed: null")
    for layer in layers:
        layer.p = rate


def dropout_rate(backbone: nn.Module) -> float:
    """Largest rate among a backbone's dropout layers; 0 without any."""
    return max((float(layer.p) for layer in _dropouts(backbone)), default=0.0)

"""What the methods that train the encoder itself have in common."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from pytorch_lightning.plugins.precision import Precision
from pytorch_lightning.utilities.enums import GradClipAlgorithmType
from pytorch_lightning.utilities.types import OptimizerLRScheduler
from torch import Tensor, nn
from torch.optim import Optimizer

from flowbert.encoders import SentenceEncoder
from flowbert.encoders.saving import write_encoder
from flowbert.encoders.settings import settings_of
from flowbert.errors import UserError
from flowbert.modules.base import EmbeddingModule
from flowbert.training.gradient_cache import embed_with_gradient_cache
from flowbert.training.lightning_adapter import weight_of


class TrainableEncoderModule(EmbeddingModule):
    """A method whose trained encoder gives the embeddings: no map on top of it.

    The encoder is part of the module, and so of its checkpoints. Biases and layer norms are spared from weight decay.

    Args:
        dropout: Rate of all dropout layers of the encoder; default: the encoder's own.
        **shared: As in :class:`EmbeddingModule`.
    """

    frozen_encoder = False  # embeddings change with every step: nobody may store them
    name: str  # of the method in the tables

    def __init__(self, *, dropout: float | None = None, **shared: Any) -> None:
        super().__init__(**shared)

    def _use_encoder(self, encoder: SentenceEncoder) -> None:
        """Train an encoder; its dropout is set here if the options say so.

        Raises:
            ValueError: If the encoder is frozen.
            UserError: If it is in half precision.
        """
        if encoder.frozen:
            raise ValueError(f"{type(self).__name__}: received a frozen encoder; allowed: one with frozen=False")
        if encoder.dtype != torch.float32:
            raise UserError(
                f"dtype: received {encoder.dtype}; allowed in training: float32, with precision bf16-mixed or 16-mixed "
                "for speed"
            )
        super()._use_encoder(encoder)
        self.trained_encoder = encoder
        self._start = encoder.describe()
        if self.hparams["dropout"] is not None:
            set_dropout(encoder.backbone, self.hparams["dropout"])
        encoder.train()

    # -------------------------------------------------------------- training

    def on_fit_start(self) -> None:
        """Refuse data that do not fit, and a trainer that holds the weights in half precision.

        Raises:
            UserError: If it does.
        """
        self.check_data(self._datamodule())
        if self.encoder.dtype.itemsize < torch.float32.itemsize:
            raise UserError(
                f"precision: received {self.trainer.precision}; allowed when the encoder is trained: 32-true, "
                "bf16-mixed, 16-mixed (weights and losses stay in float32)"
            )

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        """Draw the dropout masks of this batch from a stream of its own."""
        del batch
        self.stream("dropout", batch_idx).seed_torch(self.device)

    def embed_columns(self, batch: dict[str, Any]) -> Tensor:
        """Embeddings of a batch's sentences, column by column: ``(G, B, D)``, with the gradient of the encoder."""
        chunk_size = self.hparams["chunk_size"] if torch.is_grad_enabled() else None
        embeddings = embed_with_gradient_cache(self.encoder.embed_chunks, batch["chunks"], chunk_size)
        return embeddings[batch["rows"]]

    def log_validation(self, loss: Tensor, examples: int) -> None:
        """Log the loss of a batch without dropout as ``val/loss``, its examples being its weight in the mean."""
        self.log("val/loss", loss, on_epoch=True, batch_size=weight_of(examples), sync_dist=True)

    def configure_optimizers(self) -> OptimizerLRScheduler:
        """AdamW, biases and layer norms spared from weight decay, and the learning rate per step."""
        trained = [p for p in self.parameters() if p.requires_grad]
        groups = [
            {"params": [p for p in trained if p.ndim > 1], "weight_decay": self.hparams["weight_decay"]},
            {"params": [p for p in trained if p.ndim <= 1], "weight_decay": 0.0},
        ]
        # Fused steps unscale float16 gradients on their own, which forbids to clip them.
        fused = self.trainer.precision != "16-mixed"
        return self.scheduled(torch.optim.AdamW(groups, lr=self.hparams["learning_rate"], fused=fused))

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

    def start_encoder(self) -> SentenceEncoder:
        """The encoder that the training started from, loaded again."""
        return SentenceEncoder.from_pretrained(**settings_of(self._start), counts=self.encoder.counts)

    def start_embeddings(self, sentences: Sequence[str]) -> Tensor:
        """Embeddings of the encoder that the training started from, also in a resumed run: ``(N, D)`` on the CPU."""
        return torch.from_numpy(self.start_encoder().to(self.device).encode(list(sentences)))

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
        _ = self.encoder  # the network must be there before its weights are

    def saved_backbone(self) -> tuple[Any, str]:
        """The network to save, and the pooling that makes it give this method's embeddings."""
        return self.encoder.backbone, self.encoder.pooling

    def save_fitted(self, folder: Path) -> None:
        """Write ``encoder/``: the trained encoder as a folder that transformers loads, and how to use it.

        ``flowbert.json`` in it holds ``layers``, ``pooling``, ``max_length`` and ``prompt``. The folder appears
        complete or not at all; an older one is replaced.
        """
        backbone, pooling = self.saved_backbone()
        settings = {"layers": list(self.encoder.layers), "pooling": pooling, "max_length": self.encoder.max_length}
        settings |= {"prompt": self.encoder.prompt} if self.encoder.prompt else {}
        write_encoder(folder / "encoder", backbone, self.encoder.tokenizer, settings, self.encoder.counts)


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
        raise UserError(f"dropout: received {rate}, but the encoder has no dropout layer; allowed: null")
    for layer in layers:
        layer.p = rate


def dropout_rate(backbone: nn.Module) -> float:
    """Largest rate among a backbone's dropout layers; 0 without any."""
    return max((float(layer.p) for layer in _dropouts(backbone)), default=0.0)

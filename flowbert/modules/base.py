"""What every training method offers to the callbacks and the command line."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from pytorch_lightning import LightningModule
from torch import Tensor

from flowbert.encoders import SentenceEncoder, check_same_encoder

Transform = Callable[[Tensor], Tensor]


class EmbeddingModule(LightningModule, ABC):
    """A LightningModule that ends in sentence embeddings.

    A subclass says how raw embeddings are had (:meth:`sentence_embeddings`), which maps on top of them it offers
    (:meth:`transforms`), and how the fitted result is saved (:meth:`save_fitted`).
    """

    frozen_encoder = True  # raw embeddings never change: they may be kept
    structural: ClassVar[dict[str, Any]] = {}  # options that decide the shape of the network, with their defaults

    def __init__(self) -> None:
        super().__init__()
        # A plain list hides the encoder from nn.Module: frozen weights belong in no checkpoint and to no optimizer.
        self._connected: list[SentenceEncoder] = []

    @property
    def encoder(self) -> SentenceEncoder:
        """The encoder given by :meth:`connect`."""
        if not self._connected:
            raise RuntimeError(f"{type(self).__name__} has no encoder: call connect(encoder) first")
        return self._connected[0]

    def load_encoder(self, options: Mapping[str, Any], datamodule: Any) -> SentenceEncoder:
        """The encoder that a run starts from.

        Args:
            options: Arguments of :meth:`SentenceEncoder.from_pretrained`.
            datamodule: The data module, loaded; for methods that make an encoder for a corpus.
        """
        del datamodule
        return SentenceEncoder.from_pretrained(**options, frozen=self.frozen_encoder)

    def connect(self, encoder: SentenceEncoder) -> None:
        """Give the encoder whose embeddings this module learns from."""
        self._connected = [encoder]

    def sentence_embeddings(self, sentences: Sequence[str]) -> Tensor:
        """Raw embeddings of shape ``(N, D)`` on the CPU, before any of :meth:`transforms`."""
        datamodule: Any = self.trainer.datamodule  # type: ignore[attr-defined]  # set by Trainer.fit and its siblings
        embeddings: Tensor = datamodule.embeddings(sentences)
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

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Record which encoder and which corpus the parameters belong to."""
        if self._connected:
            checkpoint["encoder_key"] = self.encoder.key()
        record_corpus(self, checkpoint)

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Refuse the parameters of another encoder.

        Raises:
            UserError: If the checkpoint was made with other weights, layers, pooling, length or precision.
        """
        saved, here = checkpoint.get("encoder_key"), self.encoder.key() if self._connected else None
        if saved is not None and here is not None:
            check_same_encoder(saved, here, "checkpoint")


def record_corpus(module: LightningModule, checkpoint: dict[str, Any]) -> None:
    """Put what a module is fitted on into its checkpoint, if its data module tells."""
    try:
        datamodule = getattr(module.trainer, "datamodule", None)
    except RuntimeError:  # a module without a trainer
        return
    describe = getattr(datamodule, "describe_corpus", None)
    if describe is not None:
        checkpoint["corpus"] = describe()

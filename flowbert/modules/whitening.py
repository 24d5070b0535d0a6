"""The module of a fit in which nothing is trained: the closed-form whitening beside it is the method."""

from pathlib import Path
from typing import Any

from flowbert.encoders import SentenceEncoder
from flowbert.modules.base import EmbeddingModule, Transform
from flowbert.vectors import VectorTable


class WhiteningModule(EmbeddingModule):
    """A frozen encoder and no parameter: :class:`flowbert.callbacks.WhiteningBaseline` fits the map in one pass.

    Args:
        encoder: The frozen encoder, or a table of vectors in its place.
        seed: Seed of the subset that is fitted on, if it is one.

    Example:
        >>> WhiteningModule().trained, WhiteningModule().transforms()
        (False, {})
    """

    trained = False

    def __init__(self, encoder: SentenceEncoder | VectorTable | None = None, seed: int = 0) -> None:
        super().__init__(seed=seed)
        if encoder is not None:
            self._use_encoder(encoder)

    def on_test_start(self) -> None:
        """The encoder computes where the trainer says."""
        self.encoder.to(self.device)

    def test_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
        """Do nothing: the callbacks measure whole tasks."""

    def transforms(self) -> dict[str, Transform]:
        """No map of its own."""
        return {}

    def save_fitted(self, folder: Path) -> None:
        """Write nothing: the whitening has a file of its own."""

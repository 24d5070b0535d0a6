"""The Lightning data module of masked language modelling."""

from collections.abc import Sequence
from typing import Any

from flowbert.datamodules.options import CorpusOptions
from flowbert.datamodules.text import Batch, TextDataModule
from flowbert.store.embedding_store import Encoder


class MLMDataModule(TextDataModule):
    """A corpus for masked language modelling, beside the STS tasks.

    A batch is token features, each ``(B, T)``; the module that trains masks them.  B: sentences, T: tokens.

    Args:
        encoder: The encoder that is trained; default: that of the module that a trainer is given beside it.
        options: What is trained on and measured on; default: the built-in sample.
        held_out: Share of the distinct sentences kept out of the training for the held-out loss, in [0, 0.5].
        batch_size: Sentences per step and process.
        **shared: Further arguments of :class:`TextDataModule`.

    Raises:
        UserError: If an option is outside what is allowed.
    """

    def __init__(
        self,
        encoder: Encoder | None = None,
        options: CorpusOptions | None = None,
        *,
        held_out: float = 0.05,
        batch_size: int = 32,
        **shared: Any,
    ) -> None:
        super().__init__(encoder, options, held_out=held_out, batch_size=batch_size, **shared)

    def batch(self, epoch: int, indices: Sequence[int]) -> Batch:
        """Token features of some sentences of the corpus."""
        (sentences,) = self.texts(epoch, indices)
        return dict(self.training_encoder().tokenize(sentences))

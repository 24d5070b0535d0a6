"""Sentence-BERT as a LightningModule: two sentences through one encoder, supervised."""

from typing import Any

from torch import Tensor, nn

from flowbert.encoders import SentenceEncoder
from flowbert.errors import UserError, choices
from flowbert.losses.siamese import cosine_loss, softmax_loss, triplet_loss
from flowbert.modules.trainable import TrainableEncoderModule
from flowbert.seeding import Stream

OBJECTIVES = {"softmax": "nli", "cosine": "sts", "triplet": "nli_triples"}  # and the data that each needs
_CLASSES = 3


class SBERTModule(TrainableEncoderModule):
    r"""Train the encoder on labelled pairs or triples.

    ``softmax``: cross-entropy of :math:`\mathrm{softmax}(W [u; v; |u - v|] + b)` over entailment, neutral and
    contradiction; ``cosine``: squared error of :math:`\cos(u, v)` against score / 5; ``triplet``:
    :math:`\max(\lVert a - p \rVert - \lVert a - n \rVert + 1, 0)`. The defaults are the published settings. The STS
    figure to choose a checkpoint by is ``sbert/TASK/dev/spearman_all``.

    References:
        Sentence-BERT: Sentence Embeddings using Siamese BERT-Networks (Reimers and Gurevych, 2019).
        https://arxiv.org/abs/1908.10084

    Args:
        encoder: The encoder to train, not frozen; default: that of the checkpoint that is loaded next.
        objective: ``softmax`` (source nli), ``cosine`` (sts) or ``triplet`` (nli_triples).
        margin: Distance by which the triplet objective wants the negative farther away, above 0.
        chunk_size: Most sentences whose activations are in memory at once (gradient caching); default: all.
        **shared: Further arguments of :class:`TrainableEncoderModule`; the seed is that of the classifier's start.

    Raises:
        UserError: If an option is outside what is allowed.
    """

    name = "sbert"

    def __init__(
        self,
        encoder: SentenceEncoder | None = None,
        objective: str = "softmax",
        margin: float = 1.0,
        chunk_size: int | None = None,
        **shared: Any,
    ) -> None:
        super().__init__(**shared)
        if objective not in OBJECTIVES:
            raise UserError(f"objective: received {objective!r}; {choices(OBJECTIVES, objective)}")
        self.classifier: nn.Linear | None = None
        if encoder is not None:
            self._use_encoder(encoder)

    def _use_encoder(self, encoder: SentenceEncoder) -> None:
        """Train an encoder, with a classifier on top of it if the objective has one."""
        super()._use_encoder(encoder)
        if self.hparams["objective"] == "softmax":
            with Stream(self.hparams["seed"], "classifier").as_torch():
                self.classifier = nn.Linear(3 * encoder.dim, _CLASSES)

    def check_data(self, datamodule: Any) -> None:
        """Check that data and objective belong together.

        Raises:
            UserError: If they do not.
        """
        objective = self.hparams["objective"]
        source = getattr(datamodule, "source", OBJECTIVES[objective])
        if source != OBJECTIVES[objective]:
            raise UserError(
                f"source: received {source!r} with objective {objective!r}; allowed with it: {OBJECTIVES[objective]}"
            )

    def training_step(self, batch: dict[str, Any], batch_idx: int) -> Tensor:
        """Loss of a batch."""
        loss = self._loss(self.embed_columns(batch), batch)
        self.log("step/loss", loss.detach())
        self.check_loss(loss, batch_idx)
        return loss

    def validation_step(self, batch: dict[str, Any], batch_idx: int) -> None:
        """Log the loss without dropout as ``val/loss``."""
        del batch_idx
        columns = self.embed_columns(batch)
        self.log_validation(self._loss(columns, batch), columns.shape[1])

    test_step = validation_step

    def _loss(self, columns: Tensor, batch: dict[str, Any]) -> Tensor:
        if self.hparams["objective"] == "triplet":
            return triplet_loss(columns[0], columns[1], columns[2], self.hparams["margin"])
        if self.classifier is None:
            return cosine_loss(columns[0], columns[1], batch["targets"])
        return softmax_loss(columns[0], columns[1], batch["targets"], self.classifier.weight, self.classifier.bias)

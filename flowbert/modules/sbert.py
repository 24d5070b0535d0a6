"""Sentence-BERT as a LightningModule: two sentences through one encoder, supervised."""

from typing import Any

from torch import Tensor, nn

from flowbert.encoders import SentenceEncoder
from flowbert.errors import UserError, choices
from flowbert.losses.siamese import cosine_loss, softmax_loss, triplet_loss
from flowbert.modules.trainable import TrainableEncoderModule
from flowbert.seeding import Stream
from flowbert.training.grad_cache import check_chunk_size
from flowbert.training.schedules import warmup_then

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
        objective: ``softmax`` (data.source nli), ``cosine`` (sts) or ``triplet`` (nli_triples).
        margin: Distance by which the triplet objective wants the negative farther away, above 0.
        dropout: Rate of all dropout layers of the encoder; default: the encoder's own.
        chunk_size: Most sentences whose activations are in memory at once (gradient caching); default: all.
        learning_rate: Largest step size of AdamW.
        weight_decay: Decoupled weight decay; biases and layer norms are spared.
        schedule: ``linear``, ``cosine`` or ``constant`` after the warm-up.
        warmup: Share of all steps with linearly rising learning rate, in [0, 1).
        seed: Seed of the classifier's start.

    Raises:
        UserError: If an option is outside what is allowed.
    """

    name = "sbert"

    def __init__(
        self,
        objective: str = "softmax",
        margin: float = 1.0,
        dropout: float | None = None,
        chunk_size: int | None = None,
        learning_rate: float = 2e-5,
        weight_decay: float = 0.01,
        schedule: str = "linear",
        warmup: float = 0.1,
        seed: int = 0,
    ) -> None:
        super().__init__()
        if objective not in OBJECTIVES:
            raise UserError(f"model.objective: received {objective!r}; {choices(OBJECTIVES, objective)}")
        if margin <= 0:
            raise UserError(f"model.margin: received {margin}; allowed: above 0")
        check_chunk_size(chunk_size)
        self.check_options(learning_rate, weight_decay, dropout)
        warmup_then(schedule, warmup, total=1)  # checks both, so that a typo shows before anything is loaded
        self.save_hyperparameters()
        self.classifier: nn.Linear | None = None

    def connect(self, encoder: SentenceEncoder) -> None:
        """Give the encoder to train, and build the classifier for it if the objective has one."""
        super().connect(encoder)
        if self.hparams["objective"] == "softmax":
            with Stream(self.hparams["seed"], "classifier").as_torch():
                self.classifier = nn.Linear(3 * encoder.dim, _CLASSES)

    def on_fit_start(self) -> None:
        """Check that data and objective belong together."""
        super().on_fit_start()
        self.check_data(getattr(self.trainer, "datamodule", None))

    def check_data(self, datamodule: Any) -> None:
        """Check that data and objective belong together.

        Raises:
            UserError: If they do not.
        """
        objective = self.hparams["objective"]
        source = getattr(datamodule, "source", OBJECTIVES[objective])
        if source != OBJECTIVES[objective]:
            raise UserError(
                f"data.source: received {source!r} with model.objective {objective!r}; allowed with it: "
                f"{OBJECTIVES[objective]}"
            )

    def training_step(self, batch: dict[str, Any], batch_idx: int) -> Tensor:
        """Loss of a batch."""
        loss = self._loss(self.embed_sides(batch), batch)
        self.log("step/loss", loss.detach())
        self.check_loss(loss, batch_idx)
        return loss

    def validation_step(self, batch: dict[str, Any], batch_idx: int) -> None:
        """Log the loss without dropout as ``val/loss``."""
        del batch_idx
        sides = self.embed_sides(batch)
        self.log("val/loss", self._loss(sides, batch), on_epoch=True, batch_size=sides.shape[1], sync_dist=True)

    test_step = validation_step

    def _loss(self, sides: Tensor, batch: dict[str, Any]) -> Tensor:
        if self.hparams["objective"] == "triplet":
            return triplet_loss(sides[0], sides[1], sides[2], self.hparams["margin"])
        if self.classifier is None:
            return cosine_loss(sides[0], sides[1], batch["targets"])
        return softmax_loss(sides[0], sides[1], batch["targets"], self.classifier.weight, self.classifier.bias)

"""SimCSE as a LightningModule: contrastive training of the encoder, without labels or from NLI."""

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from flowbert.encoders import SentenceEncoder
from flowbert.errors import UserError
from flowbert.losses.info_nce import InfoNCE
from flowbert.modules.heads import DenseTanh, check_head
from flowbert.modules.masking import mask_features, predict_chosen, predictor_above
from flowbert.modules.trainable import TrainableEncoderModule, dropout_rate
from flowbert.training.gather import gather_rows
from flowbert.training.grad_cache import check_chunk_size
from flowbert.training.schedules import warmup_then


class SimCSEModule(TrainableEncoderModule):
    r"""Train the encoder by :math:`-\log \mathrm{softmax}_j \cos(h_i, h_j^+) / \tau` at j = i.

    All sentences of a step, both passes of a sentence included, go through the encoder as one batch. With several
    processes the embeddings are gathered with gradient, so that every sentence has all sentences of all processes as
    negatives. The STS figure to choose a checkpoint by is logged by the evaluation callback as
    ``simcse/TASK/dev/spearman_all``; ``trainer.val_check_interval`` says how often.

    Published settings: without labels, batch 64, learning rate 3e-5, one epoch, ``mlp_train_only``; with NLI triples,
    batch 512, learning rate 5e-5, three epochs, ``mlp``.

    References:
        SimCSE: Simple Contrastive Learning of Sentence Embeddings (Gao et al., 2021). https://arxiv.org/abs/2104.08821

    Args:
        temperature: :math:`\tau`, above 0.
        head: Dense layer and tanh above the pooled encoder: ``mlp_train_only`` (left out at test time), ``mlp`` (kept;
            it is saved as the encoder's pooler, so it needs pooling ``cls`` of the last layer), or ``none``.
        hard_negative_weight: Logit bias of a sentence's own hard negative, where the data have negatives.
        mlm_weight: Weight of masked language modelling beside the contrastive loss (paper: 0.1); 0: none. Its
            prediction layers are the checkpoint's; where it has none they start at random, with the word embeddings
            tied.
        mask_fraction: Chance of a token to be predicted there, in (0, 1).
        dropout: Rate of all dropout layers of the encoder; default: the encoder's own.
        chunk_size: Most sentences whose activations are in memory at once (gradient caching, a third slower, the same
            gradients); default: all.
        learning_rate: Largest step size of AdamW.
        weight_decay: Decoupled weight decay; biases and layer norms are spared.
        schedule: ``linear``, ``cosine`` or ``constant`` after the warm-up.
        warmup: Share of all steps with linearly rising learning rate, in [0, 1).
        seed: Seed of the head's start and of the masks.

    Raises:
        UserError: If an option is outside what is allowed.
    """

    name = "simcse"

    def __init__(
        self,
        temperature: float = 0.05,
        head: str = "mlp_train_only",
        hard_negative_weight: float = 0.0,
        mlm_weight: float = 0.0,
        mask_fraction: float = 0.15,
        dropout: float | None = None,
        chunk_size: int | None = None,
        learning_rate: float = 3e-5,
        weight_decay: float = 0.0,
        schedule: str = "linear",
        warmup: float = 0.0,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.loss = InfoNCE(temperature, hard_negative_weight)
        check_head(head)
        check_chunk_size(chunk_size)
        if mlm_weight < 0:
            raise UserError(f"model.mlm_weight: received {mlm_weight}; allowed: 0 or more")
        if not 0 < mask_fraction < 1:
            raise UserError(f"model.mask_fraction: received {mask_fraction}; allowed: above 0 and below 1")
        self.check_options(learning_rate, weight_decay, dropout)
        warmup_then(schedule, warmup, total=1)  # checks both, so that a typo shows before anything is loaded
        self.save_hyperparameters()
        self.head: DenseTanh | None = None
        self.predictor: Any = None

    def connect(self, encoder: SentenceEncoder) -> None:
        """Give the encoder to train, and build the head for it.

        Raises:
            UserError: If the encoder is frozen, or a head that is kept cannot be saved with it.
        """
        super().connect(encoder)
        if self.hparams["head"] == "mlp":
            _check_pooler_slot(encoder)
        if self.hparams["head"] != "none":
            self.head = DenseTanh(encoder.dim, self.hparams["seed"])
        if self.hparams["mlm_weight"]:
            _check_mask_token(encoder)
            self.predictor = predictor_above(encoder, self.hparams["seed"])

    # -------------------------------------------------------------- training

    def on_fit_start(self) -> None:
        """Refuse a training that can only collapse.

        Raises:
            UserError: If dropout is to make the positives and the encoder has none.
        """
        super().on_fit_start()
        datamodule: Any = getattr(self.trainer, "datamodule", None)
        if getattr(datamodule, "positive", None) == "dropout" and dropout_rate(self.encoder.backbone) == 0:
            raise UserError(
                "model.dropout: the encoder's dropout is 0, so both passes of a sentence are identical and the "
                "training collapses; allowed: model.dropout 0.1, or another data.positive (crop, word_deletion, ...)"
            )

    def training_step(self, batch: dict[str, Any], batch_idx: int) -> Tensor:
        """Contrastive loss of the joined batch of all processes, plus the weighted MLM loss of this one's."""
        loss = self._contrastive_loss(gather_rows(self._represent(batch).transpose(0, 1)).transpose(0, 1))
        self.log("step/loss", loss.detach())
        self.check_loss(loss, batch_idx)
        if self.predictor is None:
            return loss
        mlm_loss = self._mlm_loss(batch, batch_idx)
        self.log("step/mlm_loss", mlm_loss.detach())
        joined: Tensor = loss + self.hparams["mlm_weight"] * mlm_loss
        return joined

    def validation_step(self, batch: dict[str, Any], batch_idx: int) -> None:
        """Log the contrastive loss without dropout as ``val/loss``."""
        del batch_idx
        sides = self._represent(batch)
        loss = self._contrastive_loss(sides)
        self.log("val/loss", loss, on_epoch=True, batch_size=sides.shape[1], sync_dist=True)

    test_step = validation_step

    def _represent(self, batch: dict[str, Any]) -> Tensor:
        sides = self.embed_sides(batch)
        represented: Tensor = sides if self.head is None else self.head(sides)
        return represented.float()

    def _contrastive_loss(self, sides: Tensor) -> Tensor:
        loss: Tensor = self.loss(*sides)
        return loss

    def _mlm_loss(self, batch: dict[str, Any], batch_idx: int) -> Tensor:
        generator = self.stream("masks", batch_idx).generator()
        tokenizer, fraction = self.encoder.tokenizer, self.hparams["mask_fraction"]
        masked = [mask_features(features, tokenizer, fraction, generator) for features in batch["chunks"]]
        chunks, labels = [inputs for inputs, _ in masked], [labels for _, labels in masked]
        logits, wanted = predict_chosen(self.predictor, self.encoder, chunks, labels)
        total = torch.nn.functional.cross_entropy(logits.float(), wanted, reduction="sum")
        return total / max(len(wanted), 1)

    # ------------------------------------------------------------- embedding

    @torch.no_grad()
    def sentence_embeddings(self, sentences: Sequence[str]) -> Tensor:
        """Embeddings with the weights of this moment, through the head if it is kept: ``(N, D)`` on the CPU."""
        embeddings = super().sentence_embeddings(sentences)
        if self.head is None or self.hparams["head"] != "mlp":
            return embeddings
        with torch.autocast(self.device.type, enabled=False):
            kept: Tensor = self.head(embeddings.to(self.device))
        return kept.cpu()

    def saved_backbone(self) -> tuple[Any, str]:
        """The network to save; a head that is kept becomes its pooler, which computes the same."""
        backbone: Any = self.encoder.backbone
        if self.head is None or self.hparams["head"] != "mlp":
            return super().saved_backbone()
        with_pooler = type(backbone)(backbone.config)
        dense = {f"pooler.dense.{name}": value for name, value in self.head.dense.state_dict().items()}
        with_pooler.load_state_dict(backbone.state_dict() | dense)
        return with_pooler, "cls_pooler"


def _check_pooler_slot(encoder: SentenceEncoder) -> None:
    if encoder.pooling != "cls" or encoder.layers != (encoder.num_layers,):
        raise UserError(
            f"model.head: 'mlp' is kept as the encoder's pooler, which reads position 0 of the last layer; received "
            f"pooling {encoder.pooling}, layers {list(encoder.layers)}; allowed: pooling cls, layers last; or another "
            "model.head (mlp_train_only, none)"
        )
    if "add_pooling_layer" not in inspect.signature(type(encoder.backbone).__init__).parameters:
        raise UserError(
            f"model.head: 'mlp' is kept as the encoder's pooler, which {type(encoder.backbone).__name__} has not; "
            "allowed with it: mlp_train_only, none"
        )


def _check_mask_token(encoder: SentenceEncoder) -> None:
    if getattr(encoder.tokenizer, "mask_token_id", None) is None:
        raise UserError(f"model.mlm_weight: the tokenizer of {encoder.path} has no mask token; allowed with it: 0")

"""SimCSE as a LightningModule: contrastive training of the encoder, without labels or from NLI."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from flowbert.encoders import SentenceEncoder
from flowbert.errors import UserError, choices
from flowbert.losses.base import ContrastiveLoss
from flowbert.losses.info_nce import InfoNCE
from flowbert.modules.heads import HEADS, DenseTanh
from flowbert.modules.masking import mask_features, predict_chosen, predictor_above
from flowbert.modules.trainable import TrainableEncoderModule, dropout_rate
from flowbert.training.gather import gather_rows


class SimCSEModule(TrainableEncoderModule):
    r"""Train the encoder by a contrastive loss: :math:`-\log \mathrm{softmax}_j \cos(h_i, h_j^+) / \tau` at j = i.

    All sentences of a step, both passes of a sentence included, go through the encoder as one batch. With several
    processes the embeddings are gathered with gradient, so that every sentence has all sentences of all processes as
    negatives. The STS figure to choose a checkpoint by is logged by the evaluation callback as
    ``simcse/TASK/dev/spearman_all``; ``trainer.val_check_interval`` says how often.

    Published settings: without labels, batch 64, learning rate 3e-5, one epoch, ``mlp_train_only``; with NLI triples,
    batch 512, learning rate 5e-5, three epochs, ``mlp``.

    References:
        SimCSE: Simple Contrastive Learning of Sentence Embeddings (Gao et al., 2021). https://arxiv.org/abs/2104.08821

    Args:
        encoder: The encoder to train, not frozen; default: that of the checkpoint that is loaded next.
        loss: The contrastive loss on anchors, positives and hard negatives; default: :class:`InfoNCE`.
        head: Dense layer and tanh above the pooled encoder: ``mlp_train_only`` (left out at test time), ``mlp`` (kept;
            it is saved as the encoder's pooler, so it needs pooling ``cls`` of the last layer), or ``none``.
        mlm_weight: Weight of masked language modelling beside the contrastive loss (paper: 0.1); 0: none. Its
            prediction layers are the checkpoint's; where it has none they start at random, with the word embeddings
            tied.
        mask_fraction: Chance of a token to be predicted there, in (0, 1).
        chunk_size: Most sentences whose activations are in memory at once (gradient caching, a third slower, the same
            gradients); default: all.
        learning_rate: Largest step size of AdamW.
        weight_decay: Decoupled weight decay; biases and layer norms are spared.
        warmup: Share of all steps with linearly rising learning rate, in [0, 1).
        **shared: Further arguments of :class:`TrainableEncoderModule`; the seed is that of the head's start and masks.

    Raises:
        UserError: If an option is outside what is allowed.
    """

    name = "simcse"

    def __init__(
        self,
        encoder: SentenceEncoder | None = None,
        loss: ContrastiveLoss | None = None,
        head: str = "mlp_train_only",
        mlm_weight: float = 0.0,
        mask_fraction: float = 0.15,
        chunk_size: int | None = None,
        learning_rate: float = 3e-5,
        weight_decay: float = 0.0,
        warmup: float = 0.0,
        **shared: Any,
    ) -> None:
        super().__init__(learning_rate=learning_rate, weight_decay=weight_decay, warmup=warmup, **shared)
        if head not in HEADS:
            raise UserError(f"head: received {head!r}; {choices(HEADS, head)}")
        self.loss = loss_from(loss)
        self.save_hyperparameters({"loss": describe_loss(self.loss)})
        self.head: DenseTanh | None = None
        self.predictor: Any = None
        if encoder is not None:
            self._use_encoder(encoder)

    def _use_encoder(self, encoder: SentenceEncoder) -> None:
        """Train an encoder, with the head on top of it.

        Raises:
            UserError: If it is in half precision, or a head that stays cannot be saved with it.
        """
        super()._use_encoder(encoder)
        if self.hparams["head"] == "mlp":
            _check_pooler_slot(encoder)
        if self.hparams["head"] != "none":
            self.head = DenseTanh(encoder.dim, self.hparams["seed"])
        if self.hparams["mlm_weight"]:
            _check_mask_token(encoder)
            self.predictor = predictor_above(encoder, self.hparams["seed"])

    # -------------------------------------------------------------- training

    def check_data(self, datamodule: Any) -> None:
        """Refuse a training that can only collapse.

        Raises:
            UserError: If dropout is to make the positives and the encoder has none.
        """
        positive = getattr(getattr(datamodule, "positive", None), "name", None)
        if positive == "dropout" and self.has_encoder and dropout_rate(self.encoder.backbone) == 0:
            raise UserError(
                "dropout: the encoder's dropout is 0, so both passes of a sentence are identical and the training "
                "collapses; allowed: dropout 0.1, or another positive (crop, word_deletion, ...)"
            )

    def training_step(self, batch: dict[str, Any], batch_idx: int) -> Tensor:
        """Contrastive loss of the joined batch of all processes, plus the weighted MLM loss of this one's."""
        loss: Tensor = self.loss(*gather_rows(self._represent(batch).transpose(0, 1)).transpose(0, 1))
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
        columns = self._represent(batch)
        self.log_validation(self.loss(*columns), columns.shape[1])

    test_step = validation_step

    def _represent(self, batch: dict[str, Any]) -> Tensor:
        """What the loss compares, ``(G, B, D)``: anchors, positives and perhaps hard negatives, through the head."""
        columns = self.embed_columns(batch)
        represented: Tensor = columns if self.head is None else self.head(columns)
        return represented.float()

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
        """Embeddings with the weights of this moment, through the head if it stays: ``(N, D)`` on the CPU."""
        embeddings = super().sentence_embeddings(sentences)
        if self.head is None or self.hparams["head"] != "mlp":
            return embeddings
        with torch.autocast(self.device.type, enabled=False):
            represented: Tensor = self.head(embeddings.to(self.device))
        return represented.cpu()

    def saved_backbone(self) -> tuple[Any, str]:
        """The network to save; a head that stays becomes its pooler, which computes the same."""
        backbone: Any = self.encoder.backbone
        if self.head is None or self.hparams["head"] != "mlp":
            return super().saved_backbone()
        with_pooler = type(backbone)(backbone.config)
        dense = {f"pooler.dense.{name}": value for name, value in self.head.dense.state_dict().items()}
        with_pooler.load_state_dict(backbone.state_dict() | dense)
        return with_pooler, "cls_pooler"


def describe_loss(loss: ContrastiveLoss) -> dict[str, Any]:
    """Class and settings of a loss, as plain values: a loss keeps its constructor's arguments as attributes.

    Example:
        >>> described = describe_loss(InfoNCE(temperature=0.1))
        >>> described["class_path"], described["init_args"]
        ('flowbert.losses.info_nce.InfoNCE', {'temperature': 0.1, 'hard_negative_weight': 0.0})
    """
    settings = {name: getattr(loss, name) for name in inspect.signature(type(loss)).parameters}
    return {"class_path": f"{type(loss).__module__}.{type(loss).__qualname__}", "init_args": settings}


def loss_from(loss: ContrastiveLoss | Mapping[str, Any] | None) -> ContrastiveLoss:
    """A loss as it is given, from what :func:`describe_loss` told a checkpoint, or the default.

    Raises:
        UserError: If a checkpoint names a loss that is not imported: no code is imported by its word.
    """
    if loss is None or isinstance(loss, ContrastiveLoss):
        return InfoNCE() if loss is None else loss
    for kind in _subclasses(ContrastiveLoss):
        if f"{kind.__module__}.{kind.__qualname__}" == loss["class_path"]:
            found: ContrastiveLoss = kind(**loss["init_args"])
            return found
    raise UserError(f"loss: received {loss['class_path']!r}; allowed: a loss that is imported before it is loaded")


def _subclasses(kind: type[Any]) -> list[type[Any]]:
    return [found for child in kind.__subclasses__() for found in (child, *_subclasses(child))]


def _check_pooler_slot(encoder: SentenceEncoder) -> None:
    if encoder.pooling != "cls" or encoder.layers != (encoder.num_layers,):
        raise UserError(
            f"head: 'mlp' stays as the encoder's pooler, which reads position 0 of the last layer; received pooling "
            f"{encoder.pooling}, layers {list(encoder.layers)}; allowed: pooling cls, layers last; or another head "
            "(mlp_train_only, none)"
        )
    if "add_pooling_layer" not in inspect.signature(type(encoder.backbone).__init__).parameters:
        raise UserError(
            f"head: 'mlp' stays as the encoder's pooler, which {type(encoder.backbone).__name__} has not; "
            "allowed with it: mlp_train_only, none"
        )


def _check_mask_token(encoder: SentenceEncoder) -> None:
    if getattr(encoder.tokenizer, "mask_token_id", None) is None:
        raise UserError(f"mlm_weight: the tokenizer of {encoder.path} has no mask token; allowed with it: 0")
